"""The oracles themselves, held against frames whose right answer is known."""

import unittest

from . import icrc, wire


class Icrc(unittest.TestCase):
    pass


if __name__ == "__main__":
    unittest.main()
