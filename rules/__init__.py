"""The built-in rules: a plugin package like any third party's, one folder per family, one file per rule."""
