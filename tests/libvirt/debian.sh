#!/bin/sh
# Makes a disk as clouds have them, of Debian's packages: debian.sh DIRECTORY DISK
# It boots by BIOS and GRUB, and cloud-init tells it who it is. As root; no loop device is needed.
set -eu
cd "$1"
disk=$2
size=1600 # MiB
mmdebstrap --quiet --mode=root --variant=essential --format=directory \
    --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --include=systemd-sysv,cloud-init,openssh-server,linux-image-cloud-amd64,initramfs-tools \
    --include=iproute2,ifupdown,netbase bookworm tree
release=$(basename tree/boot/vmlinuz-*)
release=${release#vmlinuz-}
mkdir -p tree/boot/grub
cat >tree/boot/grub/grub.cfg <<END
set timeout=0
menuentry debian {
    linux /boot/vmlinuz-$release root=/dev/vda1 ro console=ttyS0 net.ifnames=0
    initrd /boot/initrd.img-$release
}
END
echo '/dev/vda1 / ext4 rw 0 1' >tree/etc/fstab
: >tree/etc/machine-id
rm -f tree/etc/ssh/ssh_host_*
mke2fs -q -F -t ext4 -E offset=1048576,lazy_itable_init=0,lazy_journal_init=0 \
    -d tree raw "$((size - 1))M"
grub-mkimage -O i386-pc -o core.img -p '(hd0,msdos1)/boot/grub' \
    biosdisk part_msdos ext2 normal linux configfile
# The boot sector has the table of partitions behind its program: one, from 1 MiB to the end.
dd if=/usr/lib/grub/i386-pc/boot.img of=raw bs=440 count=1 conv=notrunc status=none
dd if=core.img of=raw seek=1 conv=notrunc status=none
end=$(((size - 1) * 2048))
little() { printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24)); }
/usr/bin/printf "\\x80\\xfe\\xff\\xff\\x83\\xfe\\xff\\xff$(little 2048)$(little $end)" |
    dd of=raw bs=1 seek=446 conv=notrunc status=none
/usr/bin/printf '\x55\xaa' | dd of=raw bs=1 seek=510 conv=notrunc status=none
qemu-img convert -O qcow2 raw "$disk"
rm -rf tree raw core.img
