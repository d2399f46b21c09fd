# SPDX-License-Identifier: Apache-2.0
"""Nothing in this folder is a test; generate.py needs vLLM to be imported."""

collect_ignore = ["generate.py"]
