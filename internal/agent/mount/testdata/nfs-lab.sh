#!/bin/bash
# Copyright The Holdfast Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests of real mounts and of NFS in a throw-away machine: an NFS server on 127.0.0.1 that speaks version 3 and 4, which the tests stop
# and start. It needs one empty disk ($DISK), nfs-kernel-server, nfs-common, rpcbind and e2fsprogs, and the test binaries mount.test and
# hold.test (CGO_ENABLED=0 go test -c) beside it. It ends with 0 when all of them passed.
exec 2>&1
cd "$(dirname "$0")" || exit 1
here=$PWD
DISK=${DISK:-$(readlink -f /dev/disk-d1)}
modprobe -a nfsd nfs nfsv4 nfsv3 loop fuse overlay
mkfs.ext4 -q "$DISK" && mkdir -p /srv/ex && mount "$DISK" /srv/ex || exit 1
mount -t nfsd nfsd /proc/fs/nfsd
mkdir -p /var/lib/nfs/rpc_pipefs && mount -t rpc_pipefs rpc /var/lib/nfs/rpc_pipefs
mount -t tmpfs recovery /var/lib/nfs/v4recovery
mount -t tmpfs tmp /tmp
ip link set lo up
echo '/srv/ex *(rw,no_root_squash,no_subtree_check,insecure,fsid=1)' > /etc/exports
start='rpc.nfsd -G 10 -L 10 4' # A short grace time: after a start, the first open waits for it.
rpcbind -w; exportfs -ra; nfsdcld; rpc.mountd; $start
export HOLDFAST_LAB_NFS=127.0.0.1:/srv/ex HOLDFAST_LAB_NFS_VERSIONS='vers=4.2 vers=3,nolock'
export HOLDFAST_LAB_NFS_STOP='rpc.nfsd 0' HOLDFAST_LAB_NFS_START="$start"
cd /tmp || exit 1
failed=0
"$here/mount.test" -test.v -test.timeout 200s || failed=1
"$here/hold.test" -test.v -test.timeout 250s -test.run 'Real|NFS' || failed=1
exit $failed
