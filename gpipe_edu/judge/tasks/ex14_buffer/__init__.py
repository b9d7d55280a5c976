"""Exercise 14: gradients of bf16 weights, added up in fp32."""
