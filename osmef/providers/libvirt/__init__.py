"""Guests of QEMU on hosts that libvirt manages."""
