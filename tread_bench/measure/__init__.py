"""What is measured on a network: quality of its images, its inside, speed, MACs."""
