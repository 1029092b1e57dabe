"""What this code is compared with: published formulations, written plainly, and those of other packages."""
