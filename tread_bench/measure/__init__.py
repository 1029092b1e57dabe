"""What is measured of a network: quality of its images, what goes on inside, speed, MACs."""
