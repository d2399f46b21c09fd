# SPDX-License-Identifier: Apache-2.0
"""Charts: one function a picture, drawn by matplotlib from a JSON document.

The same figures go into ``--plot`` files and, as SVG, into the page of ``specgrid
report``. matplotlib is imported inside the functions; without it ``require`` tells how
to install it. Nothing is worked out here: every number comes from the document.
"""
