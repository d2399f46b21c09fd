# SPDX-License-Identifier: Apache-2.0
"""The page of ``specgrid report``: a document of numbers, and HTML made of it alone.

``document`` works the numbers out, ``page`` sets them, a ``section_`` each; ``html``
escapes by construction, ``svg`` takes matplotlib's figures in.
"""
