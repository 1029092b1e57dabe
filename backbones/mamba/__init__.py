"""Mamba's mixer, which DiS and ZigMa share."""
