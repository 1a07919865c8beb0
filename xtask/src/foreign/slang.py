# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run slang with the arguments given; its findings go to the standard error. Exit code: 1 if there is an error."""

import sys

from pyslang.driver import Driver

driver = Driver()
driver.addStandardArgs()
read = driver.parseCommandLine(" ".join(["slang", *sys.argv[1:]])) and driver.processOptions()
sys.exit(0 if read and driver.parseAllSources() and driver.runFullCompilation() else 1)
