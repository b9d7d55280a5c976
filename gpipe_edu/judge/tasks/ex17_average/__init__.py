"""Exercise 17, second part: whose gradients of dense weights and of experts are averaged."""
