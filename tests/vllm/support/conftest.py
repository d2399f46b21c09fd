# SPDX-License-Identifier: Apache-2.0
"""Scripts that tests run in processes of their own: nothing to collect here."""

collect_ignore_glob = ["*.py"]
