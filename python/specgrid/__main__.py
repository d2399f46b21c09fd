# SPDX-License-Identifier: Apache-2.0
"""``python -m specgrid`` is the ``specgrid`` command."""

from specgrid.cli import main

main()
