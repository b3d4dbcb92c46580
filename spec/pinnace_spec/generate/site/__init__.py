"""The reference as static pages."""
