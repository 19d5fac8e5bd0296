"""`python -m localdecide.runner`: started by the daemon, speaks frames on stdin and stdout."""

from localdecide.runner.pipe import main

if __name__ == "__main__":
    main()
