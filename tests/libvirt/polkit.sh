#!/bin/sh
# Runs a program as a plain user, a member of the group "osmef", beside a libvirtd of its own that asks
# polkit about each step: polkit.sh RULES PROGRAM... It is a hypervisor like the others of the lab; what
# is changed is changed in this mount namespace only.
set -eu
rules=$1
shift
mount -t tmpfs -o mode=755 tmpfs /mnt
for place in run var/lib/libvirt var/cache/libvirt var/log/libvirt; do
    mkdir -p "/mnt/$place"
    mount --bind "/mnt/$place" "/$place"
done
mkdir -p /run/dbus /run/libvirt /var/lib/libvirt/dnsmasq /mnt/home
cp -a /etc /mnt/etc
mount --bind /mnt/etc /etc
echo "osmef:x:4711:nobody" >>/etc/group
mkdir -p /etc/polkit-1/rules.d
install -m 644 "$rules" /etc/polkit-1/rules.d/50-osmef.rules
sed -i 's/^unix_sock_rw_perms.*/unix_sock_rw_perms = "0777"/' /etc/libvirt/libvirtd.conf
echo 'access_drivers = ["polkit"]' >>/etc/libvirt/libvirtd.conf
# A bus that starts no services: libvirtd would wait for those of systemd, which is not here.
cat >/mnt/bus.conf <<END
<busconfig>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <policy context="default"><allow user="*"/><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy>
</busconfig>
END
dbus-daemon --config-file=/mnt/bus.conf --fork
virtlogd -d
"$(find /usr/lib /usr/libexec -name polkitd -type f | head -n 1)" >/dev/null 2>&1 &
libvirtd -d
chown 65534:65534 /mnt/home
# Python, and these tests, may lie where only root can look. The shell stays: it is the first process
# here, and libvirtd waits until somebody has cleared away the QEMUs that it tried.
setpriv --reuid 65534 --regid 65534 --clear-groups \
    --inh-caps=+dac_read_search --ambient-caps=+dac_read_search \
    env HOME=/mnt/home XDG_CACHE_HOME=/mnt/home/.cache "$@"
