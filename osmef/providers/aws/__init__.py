"""Amazon's EC2: instances in VPCs that are made for the run.

``access`` reaches an account, ``kinds`` lists and deletes, ``removal`` knows in which order.
"""
