// openai (npm), which has no decisions method of its own: the raw post, and the questions format.
import { createRequire } from "node:module";
const require = createRequire(process.env.CONTRACT_PACKAGES + "/");
const { OpenAI } = require("openai");

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "unused", maxRetries: 0 });
const out = {};
const decision = await client.post("/decisions", {
  body: {
    model: "m",
    input: "Charged twice",
    questions: [
      { type: "choice", name: "team", instructions: "Which team?", choices: [{ value: "billing" }, { value: "sales" }] },
      { type: "predicate", name: "urgent", instructions: "Needs a reply today." },
      { type: "score", name: "anger", instructions: "How angry?", levels: [{ label: "calm" }, { label: "angry" }] },
    ],
  },
});
out.decision = decision.answers;
const questions = { team: { type: "choice", instructions: "Which team?", criteria: { billing: "money", sales: null } } };
const completion = await client.chat.completions.create({
  model: "m",
  messages: [{ role: "user", content: "Charged twice" }],
  response_format: { type: "questions", questions },
});
out.chat = JSON.parse(completion.choices[0].message.content).team.choice;
try {
  await client.post("/decisions", { body: { model: "m", input: "s", questions: [] } });
} catch (error) {
  out.bad = [error.status, error.param];
}
console.log(JSON.stringify(out));
