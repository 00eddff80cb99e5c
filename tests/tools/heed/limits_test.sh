#!/usr/bin/env bash
# Tests of invalid files and of tight resource limits. heed must not crash. It must print an error that names
# the file or the limit. Usage: limits_test.sh PATH-TO-HEED
source "$(dirname "$0")/expect.sh" "$1"

# --- invalid TOML in a --config file and in a run's config.toml
expect 0 train reverse "${tiny[@]}" --steps 2 --quiet --out run
cp run/config.toml kept.toml; cp -r run saved
rm run/state.safetensors  # a run of weights has its configuration in config.toml
while IFS='|' read -r line content; do
  printf '%b' "$content" > bad.toml
  refuses 2 "bad.toml:$line: " train --config bad.toml --print-config
  { cat kept.toml; printf '%b' "$content"; } > run/config.toml
  refuses 4 "config.toml:" eval run
done <<'BAD'
1|[train
1|steps
3|[train]\nsteps=3\nsteps=4\n
3|[train]\nsteps=3\n\0\nlr=0.5\n
2|[train]\nsteps=99999999999999999999\n
BAD
cp kept.toml run/config.toml

# --- many parts in a key or section once made toml++ overflow the stack in `heed info DIR`; toml_test.cpp has the texts
parts=$(printf 'a.%.0s' {1..20000})a
for line in "$parts = 1" "[$parts]"; do
  echo "$line" > bad.toml
  mkdir -p many/run; cp run/model.safetensors bad.toml many/run; mv many/run/bad.toml many/run/config.toml
  expect 0 info many; out_has "config.toml:1: a key or section has more than"
done

# --- a file that is too long instead of a configuration file. inputs_test.py and hostile_test.py test pipes and devices
head -c 1000001 /dev/zero | tr '\0' '#' > long.toml
refuses 4 "long.toml: it has more than 1000000 bytes" train --config long.toml
mv run/config.toml kept; cp long.toml run/config.toml
refuses 4 "it has more than 1000000 bytes" eval run
mv kept run/config.toml

# --- files of many or large tensors
list=""
for ((i = 0; i < 20000; i++)); do list+=",\"t$i\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[$((4 * i)),$((4 * i + 4))]}"; done
header many.safetensors "{${list:1}}" 80000
under "ulimit -t 8" expect 0 info many.safetensors; out_has "20,000 tensors"  # comparing all pairs took 14 s of CPU time
bytes=$((4 << 36))
header large.safetensors "{\"huge\":{\"dtype\":\"F32\",\"shape\":[$((1 << 36))],\"data_offsets\":[0,$bytes]}}" $bytes
under "ulimit -v 4000000" refuses 4 'tensor "huge", F32 [68719476736], needs 274877906944 bytes of memory' info large.safetensors
# Headers that claim more than the file contains: heed does not allocate what they claim.
claims() { under "ulimit -v 100000" refuses 4 "$1" "${@:2}"; }
printf '\xff\xff\xff\xff\xff\xff\xff\x7f{}' > claim.safetensors
claims 'its first 8 bytes give a header of 9223372036854775807 bytes, but only 2 follow' info claim.safetensors
printf '\x01\xe1\xf5\x05\0\0\0\0{' > claim.safetensors; truncate -s 200000000 claim.safetensors
claims 'its header has 100000001 bytes; the limit is 100000000' info claim.safetensors
header claim.safetensors '{"t":{"dtype":"F32","shape":[1073741824],"data_offsets":[0,4294967296]}}' 4
claims 'tensor "t" ends at byte 4294967296 of the data, which has 4 bytes' info claim.safetensors
header claim.safetensors '{"t":{"dtype":"F32","shape":[1073741824],"data_offsets":[0,4]}}' 4
claims 'tensor "t", F32 [1073741824], needs 4294967296 bytes' info claim.safetensors
header escape.safetensors '{"__metadata__":{"a\u001b[2J":"b\u001b]0;x\u0007"},"n\u001b[1m":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' 4
expect 0 info escape.safetensors; out_has 'a\x1b[2J'; out_has 'b\x1b]0;x\x07'; out_has 'n\x1b[1m'
ok test -z "$(tr -d '[:print:]\n' < out)"


# --- little memory, or few file handles: heed either succeeds or prints one line that names the
# exhausted resource
# Finds the smallest limit in kB, to 1,000 kB, at which heed starts. Below it, the dynamic loader has too little memory,
# and what happens depends on the loader.
starts() { (ulimit -v "$1"; exec "$heed" --version) > out 2> err; }
what="heed --version with 100,000 kB"
ok starts 100000
below=0 least=100000
while ((least - below > 1000)); do
  middle=$(((below + least) / 2))
  if starts $middle; then least=$middle; else below=$middle; fi
done 2> /dev/null
failed=0
for extra in 1000 2000 4000 6000 8000 10000 12000 14000 18000 24000 44000; do
  kilobytes=$((least + extra))
  for command in "study run --out study-$kilobytes --threads 1" \
                 "train reverse ${tiny[*]} --steps 2 --quiet --out memory-$kilobytes --threads 1"; do
    what="heed $command, with $kilobytes kB"
    # shellcheck disable=SC2086
    (ulimit -v $kilobytes; exec "$heed" $command) > out 2> err
    code=$?
    [[ $code == 0 ]] || { failed=$((failed + 1)); ok test $code == 4 -o $code == 2; ok test "$(wc -l < err)" == 1; }
  done
done
ok test $failed -gt 0  # some of the limits must be too low
for handles in 3 4 5 6 7 8 10; do
  what="heed train with $handles file handles"
  (ulimit -n $handles; exec "$heed" train reverse "${tiny[@]}" --steps 2 --quiet --save-every 1 --out handles-$handles) > out 2> err
  code=$?
  [[ $code == 0 || $code == 127 ]] || { ok test $code == 4; err_has "Too many open files"; }
  if [[ -e handles-$handles/state.safetensors ]]; then expect 0 info handles-$handles/state.safetensors; fi
done
expect 0 train reverse "${tiny[@]}" --steps 2 --quiet --out handles-8 --overwrite

end_of_checks
