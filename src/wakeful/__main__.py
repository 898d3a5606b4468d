"""`python -m wakeful`, if the script is not on the path."""

import sys

from wakeful.cli import main

sys.exit(main())
