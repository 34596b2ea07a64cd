"""The official openai library of PyPI against a server: its scenarios lie in the modules that this imports."""

import openai_chat  # noqa: F401
import openai_errors  # noqa: F401
import openai_text  # noqa: F401
import openai_wire  # noqa: F401
from runner import main

if __name__ == "__main__":
    main()
