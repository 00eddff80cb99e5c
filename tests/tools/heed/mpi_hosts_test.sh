#!/usr/bin/env bash
# Test of `heed train` on two hosts. The hosts are network namespaces with their own host names, and a
# virtual cable connects them. OpenMPI starts the ranks remotely, and the ranks communicate over TCP. The
# test needs root.
# Usage: mpi_hosts_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"
if ! command -v mpirun > /dev/null || [[ ! -e $(dirname "$heed")/libheed_mpi.so ]]; then
  echo "skipped: no mpirun here, or heed was built without MPI (tools/setup --mpi)"
  exit
fi
left=heed-left-$$ right=heed-right-$$
if ! ip netns add $left 2> /dev/null || ! ip netns add $right 2> /dev/null; then
  ip netns del $left 2> /dev/null
  echo "skipped: network namespaces need root and iproute2"
  exit
fi
trap 'ip netns del $left; ip netns del $right; rm -rf "$dir"' EXIT
ip link add hl$$ netns $left type veth peer name hr$$ netns $right || { echo "skipped: no veth here"; exit; }
for end in "$left hl$$ 10.77.7.1" "$right hr$$ 10.77.7.2"; do
  read -r host cable address <<< "$end"
  ip -n "$host" addr add "$address/24" dev "$cable"
  ip -n "$host" link set "$cable" up
  ip -n "$host" link set lo up
done
# The script `remote` replaces ssh. `remote ADDRESS COMMAND` runs the command on the host $right.
cat > remote << END
#!/usr/bin/env bash
shift
exec ip netns exec $right unshare --uts bash -c 'hostname $right; eval "\$1"' _ "\$*"
END
chmod +x remote
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
hosts() { # hosts N COMMAND...: runs the command on both hosts, with N processes on each
  local n=$1
  shift
  timeout 120 ip netns exec $left unshare --uts bash -c 'hostname "$1"; shift; exec "$@"' _ $left \
    mpirun --mca plm_rsh_agent "$dir/remote" --mca btl tcp,self --mca btl_tcp_if_include 10.77.7.0/24 \
    --mca oob_tcp_if_include 10.77.7.0/24 --host "10.77.7.1:$n,10.77.7.2:$n" -n $((2 * n)) \
    --bind-to none "$@" > out 2> err < /dev/null
}
recipe=(reverse --layers 1 --heads 2 --d-model 32 --batch 8 --shards 4 --dropout 0.1 --eval-batch 8
  --eval-every 20 --schedule constant)
what="mpirun on two hosts"
hosts 1 bash -c 'hostname; ip -o -4 addr show scope global'; ok grep -q $left out; ok grep -q $right out
ok grep -q 10.77.7.2 out
expect 0 train "${recipe[@]}" --steps 60 --quiet --out plain
for n in 1 2; do
  what="mpirun on two hosts, $n on each"
  hosts $n "$heed" train "${recipe[@]}" --steps 60 --out "hosts-$n"; ok test $? == 0
  err_has "$((2 * n)) processes"
  for file in model.safetensors metrics.csv; do same hosts-$n/$file plain/$file; done
  sent=$(ip -n $right -s link show hr$$ | awk '/TX:/ { getline; print $1 }')
  echo "  $n on each host: $sent bytes sent so far by the right one"; ok test "$sent" -gt 1000000
done
# All processes of one host are killed during a run, and again after the run was resumed. The checkpoint of the
# resumed run must equal that of a run without kills.
for command in "${recipe[*]} --steps 100000 --save-every 20 --out cut" "--resume cut"; do
  what="mpirun on two hosts, one of which dies"
  last=$(ls cut/checkpoints 2> /dev/null | tail -n 1)
  # shellcheck disable=SC2086
  hosts 1 "$heed" train $command --quiet &
  pid=$!
  for _ in $(seq 400); do [[ $(ls cut/checkpoints 2> /dev/null | tail -n 1) > $last ]] && break; sleep 0.05; done
  sleep 0.3
  # shellcheck disable=SC2046
  kill -KILL $(ip netns pids $right)
  wait $pid; ok test $? != 0
  expect 0 info cut/state.safetensors
done
step=$(ls cut/checkpoints | tail -n 1)
ok test "$step" \> "$last"
expect 0 train "${recipe[@]}" --steps "$((10#${step%.safetensors}))" --save-every 20 --quiet --out straight
same "cut/checkpoints/$step" "straight/checkpoints/$step"
end_of_checks
