"""`python -m wakeful`, for those without the script on their path."""

import sys

from wakeful.cli import main

sys.exit(main())
