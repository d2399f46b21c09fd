# SPDX-License-Identifier: Apache-2.0
"""Readers of what vLLM users already have: command lines, settings files, logs."""
