"""Coverage: real images with a generated one in their neighbourhood."""
