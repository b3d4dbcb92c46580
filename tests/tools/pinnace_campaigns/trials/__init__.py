"""What tests of the program share: crashes, one-shot starts, streams that are cut anywhere, tools, and short traces."""
