"""Models that are no likelihood of rows on their own: projections, ranks, clusters, tests of one's own."""
