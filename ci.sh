#!/usr/bin/env bash
# Every check of this repository, by name; CI runs it without an argument.
#
#   ./ci.sh [VERB...]      VERB: fmt lint test no-std panic-free size firmware capi
#                                fuzz bench bench-pcap interop all extended
#
# `all` is the default and runs the first eleven in 40 minutes or less on two cores; `extended` is
# what takes too long for every commit. Each verb installs the system packages it needs (apt, as
# root or through sudo) when they are missing. A failing step does not stop the others: the
# summary names each one, and the last line counts checks and tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export DEBIAN_FRONTEND=noninteractive CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}

ci_dir=$PWD/target/ci
mkdir -p "$ci_dir"

# The feature sets that are linted, one a row: package, then cargo's words. A feature added to a
# Cargo.toml is added here. Never --all-features: features for firmware do not link on a host.
feature_matrix=(
    "roce-crc"
    "roce-crc --no-default-features"
    "roce-crc --no-default-features --features defmt"
    "roce-codec"
    "roce-codec --no-default-features"
    "roce-codec --no-default-features --features defmt"
    "roce-engine"
    "roce-engine --no-default-features"
    "roce-dataplane"
    "roce-dataplane --no-default-features"
    "roce-dataplane --no-default-features --features std"
    "roce-dataplane --no-default-features --features af-xdp"
    "roce-dataplane --no-default-features --features packet"
    "roce-pcap --no-default-features"
    "dpu-app"
    "dpu-app --no-default-features"
    "dpu-app --no-default-features --features std"
)
size_target=thumbv7em-none-eabihf
firmware_target=aarch64-unknown-none
no_std_packages=(roce-crc roce-codec roce-engine roce-dataplane dpu-app)
no_std_targets=(
    thumbv7em-none-eabihf
    riscv32imac-unknown-none-elf
    aarch64-unknown-none
    x86_64-unknown-none
)
# Whose tests run under qemu-user: target, what for, emulator, packages.
emulated_targets=(
    "s390x-unknown-linux-gnu|big-endian|qemu-s390x|-p roce-crc -p roce-codec"
    "aarch64-unknown-linux-gnu|the CRC's PMULL kernels|qemu-aarch64 -cpu max|-p roce-crc"
)
# Where no public function may have a way to panic: tests/panic-free/run's words, behind what the
# summary says. Firmware is built at s and z; the features are those that choose the CRC's kernels.
panic_free_matrix=(
    "this machine|"
    "x86-64, AVX-512|--target x86_64-unknown-linux-gnu --target-feature +pclmulqdq,+vpclmulqdq,+avx2,+avx512f,+avx512bw,+avx512vl"
    "AArch64, PMULL|--target aarch64-unknown-none --target-feature +aes,+crc"
    "thumbv7em, opt-level s|--target thumbv7em-none-eabihf --opt-level s"
    "thumbv7em, opt-level z|--target thumbv7em-none-eabihf --opt-level z"
    "riscv32imac, opt-level s|--target riscv32imac-unknown-none-elf --opt-level s"
)
# Cargo.toml files outside the workspace, each with flags or a profile of its own.
side_workspaces=(codec/capi tests/fuzz tests/panic-free tests/size)
fuzz_seconds=20

say() { printf '%s\n' "$*"; }
die() {
    printf 'ci.sh: %s\n' "$*" >&2
    exit 2
}

# ---- Steps -------------------------------------------------------------------------------------

summary=()
passed=0 failed=0 skipped=0

# step NAME COMMAND...: runs it, times it, and counts it as one check.
# tests NAME COMMAND...: the same, but what the output says of tests is what counts.
step() { run_step check "$@"; }
tests() { run_step tests "$@"; }

run_step() {
    local kind=$1 name=$2 log=$ci_dir/step.log start=$SECONDS status
    shift 2
    say "==== $name"
    set +e
    (
        set -e
        "$@"
    ) 2>&1 </dev/null | tee "$log"
    status=${PIPESTATUS[0]}
    set -e
    local ok=0 bad=0 passed_over=0
    if [[ $kind == tests ]]; then
        read -r ok bad passed_over < <(count_tests <"$log")
    fi
    if ((status != 0 && bad == 0)); then
        bad=1
    elif ((status == 0 && ok == 0 && bad == 0)); then
        if [[ $kind == tests ]]; then
            say "ci.sh: $name ran no test"
            bad=1
        else
            ok=1
        fi
    fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + passed_over))
    local verdict=ok
    if ((bad > 0)); then
        verdict=FAILED
        if grep -q '^missing: ' "$log"; then
            verdict="FAILED ($(grep -m 1 '^missing: ' "$log"))"
        fi
    fi
    local took=$((SECONDS - start))
    summary+=("$(printf '%5d s  %-58s %s' "$took" "$name" "$verdict")")
    say "---- $name: $verdict, $took s"
}

# Adds up the result lines of cargo test and of our own runners: passed, failed, skipped.
count_tests() {
    awk '
        /^test result: / { ok += $4; bad += $6; over += $8 }
        /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ { ok += $1; bad += $3; over += $5 }
        END { print ok + 0, bad + 0, over + 0 }'
}

# Fails, and the summary says what is not there.
need() {
    [[ -e $1 ]] || {
        say "missing: $1, $2"
        return 1
    }
}

# ---- System packages ---------------------------------------------------------------------------

as_root() {
    if ((EUID == 0)); then "$@"; else sudo -E env "PATH=$PATH" "$@"; fi
}

apt_updated=no
packages() {
    local package missing=()
    for package in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    command -v apt-get >/dev/null ||
        die "these packages are missing and there is no apt-get here: ${missing[*]}"
    if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
        die "run as root or with sudo, or install these first: apt-get install ${missing[*]}"
    fi
    say "ci.sh: installing ${missing[*]}"
    if [[ $apt_updated == no ]]; then
        as_root apt-get update -qq
        apt_updated=yes
    fi
    as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$ci_dir/apt.log" 2>&1 || {
        tail -n 20 "$ci_dir/apt.log" >&2
        die "apt-get could not install ${missing[*]}"
    }
}

# A verb and the packages it needs; what each is for stands beside it.
packages_for() {
    case $1 in
    lint) packages python3 shellcheck ;;
    # Namespaces and veth pairs, offloads off, captures judged by others.
    test) packages gcc libc6-dev iproute2 ethtool nftables tcpdump tshark python3-venv ;;
    # Spark.
    extended)
        packages_for test
        command -v java >/dev/null || packages openjdk-17-jre-headless
        ;;
    # Other architectures' processors, compilers for their C startup files, and their C libraries.
    no-std)
        packages gcc libc6-dev qemu-user gcc-s390x-linux-gnu libc6-dev-s390x-cross \
            gcc-aarch64-linux-gnu libc6-dev-arm64-cross
        ;;
    # Names of functions in readable form: binutils.
    panic-free) packages gcc libc6-dev binutils python3 ;;
    # A Cortex-M4 board.
    size) packages gcc libc6-dev python3 qemu-system-arm ;;
    # An AArch64 board.
    firmware) packages gcc libc6-dev python3 qemu-system-arm ;;
    # A C and a C++ user of the library, and one on a Cortex-M.
    capi) packages gcc g++ libc6-dev binutils gcc-arm-none-eabi qemu-system-arm ;;
    # libFuzzer is C++.
    fuzz) packages g++ python3 ;;
    # Who is to be outrun.
    bench-pcap) packages tshark python3 ;;
    # A Linux guest with rdma_rxe, its initramfs, what runs in it, and who checks the captures.
    interop)
        packages qemu-system-x86 busybox-static kmod cpio iproute2 ethtool nftables tcpdump tshark \
            perftest rdma-core ibverbs-utils ibverbs-providers rdmacm-utils debian-archive-keyring gcc \
            libc6-dev python3 python3-scapy
        ;;
    esac
}

# ---- fmt ---------------------------------------------------------------------------------------

verb_fmt() {
    step "fmt: workspace" cargo fmt --all --check
    local folder
    for folder in "${side_workspaces[@]}"; do
        step "fmt: $folder" cargo fmt --manifest-path "$folder/Cargo.toml" --check
    done
}

# ---- lint --------------------------------------------------------------------------------------

verb_lint() {
    packages_for lint
    step "lint: Cargo.lock is current" cargo metadata --locked --format-version 1 --no-deps --quiet
    step "lint: clippy, workspace" cargo clippy --locked --workspace --all-targets -- -D warnings
    local row
    for row in "${feature_matrix[@]}"; do
        step "lint: clippy, $row" clippy_row "$row"
    done
    local folder
    step "lint: clippy, dpu-firmware" firmware_clippy
    for folder in "${side_workspaces[@]}"; do
        step "lint: clippy, $folder" side_clippy "$folder"
    done
    step "lint: rustdoc" rustdoc
    step "lint: shellcheck" shell_scripts
    step "lint: licences" .ci/check-licences Cargo.toml \
        "${side_workspaces[@]/%//Cargo.toml}"
    step "lint: house style" .ci/check-style
    step "lint: defmt::Format on every public type" .ci/check-defmt "$ci_dir/check-defmt"
}

clippy_row() {
    local words
    read -ra words <<<"$1"
    cargo clippy --locked --all-targets -p "${words[@]}" -- -D warnings
}

side_clippy() {
    local words=(--locked --manifest-path "$1/Cargo.toml" --target-dir "$ci_dir/lint")
    if [[ $1 == tests/size ]]; then
        rustup_target "$size_target" || {
            say "passed over: it builds for $size_target alone, which rustup cannot add"
            return 0
        }
        words+=(--target "$size_target")
    fi
    cargo clippy "${words[@]}" -- -D warnings
}

firmware_clippy() {
    rustup_target "$firmware_target" || {
        say "passed over: it builds for $firmware_target alone, which rustup cannot add"
        return 0
    }
    cargo clippy --locked -p dpu-app --no-default-features --features firmware --lib \
        --bin dpu-firmware --target "$firmware_target" -- -D warnings
}

rustdoc() { RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps; }

# Every file that says it is a shell script.
shell_scripts() {
    local file first scripts=()
    while IFS= read -r file; do
        [[ -f $file ]] || continue
        IFS= read -r first <"$file" 2>/dev/null || true
        [[ $first =~ ^#!.*[/\ ](ba|da)?sh$ ]] && scripts+=("$file")
    done < <(project_files | grep -v -e '\.pcap$' -e '\.pcapng$')
    say "${scripts[*]}"
    shellcheck "${scripts[@]}"
}

project_files() {
    git ls-files --cached --others --exclude-standard 2>/dev/null ||
        find . -type f -not -path '*/target/*' -not -path './.git/*'
}

# ---- test --------------------------------------------------------------------------------------

verb_test() {
    packages_for test
    tests "test: unit, integration" cargo_test --workspace --lib --bins --tests --examples
    tests "test: documentation" cargo_test --workspace --doc
    tests "test: what firmware logs" cargo_test -p roce-codec --features defmt --test defmt
    step "test: the README's demo, read by tshark" demo
    tests "test: a hostile client at a live responder" siege
    tests "test: one mutation in sixteen turns its test red" tests/mutations/run --sample 16
}

# Tests that make network namespaces need root; without it their binaries run through sudo.
# Benchmarks are built by clippy and run by the verb `bench`.
cargo_test() {
    if ((EUID != 0)); then
        if sudo -n true 2>/dev/null; then
            export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="sudo -E"
        else
            say "ci.sh: neither root nor sudo: tests that make network namespaces pass over"
        fi
    fi
    cargo test --locked --no-fail-fast "$@"
}

siege() {
    as_root env "PATH=$PATH" tests/testbed/siege 110000 packet go-back-n
    as_root env "PATH=$PATH" tests/testbed/siege 110000 af-xdp selective-accept
}

# The first command a newcomer types, and what somebody else's dissector makes of its capture.
demo() {
    local dir capture
    dir=$(mktemp -d)
    # shellcheck disable=SC2064  # the folder of now
    trap "rm -rf '$dir'" EXIT
    capture=$dir/demo.pcapng
    cargo run --locked --release -p dpu-app -- demo --output "$capture"
    tshark_reads_rroce "$capture"
}

tshark_reads_rroce() {
    local name options all roce strange
    # Payload is not judged: tshark guesses at it and calls its own wrong guesses malformed.
    options=(-n -r "$1" -o infiniband.identify_payload:FALSE)
    while IFS= read -r name; do
        options+=(--disable-protocol "$name")
    done < <(tshark -G heuristic-decodes 2>/dev/null | awk -F '\t' '
        $1 == "infiniband.payload" && $2 != "ethertype" && $2 != "infiniband.eoib" { print $2 }')
    tshark_count() {
        tshark "${options[@]}" -Y "$1" -T fields -e frame.number 2>/dev/null | wc -l
    }
    all=$(tshark_count "udp.dstport == 4791")
    roce=$(tshark_count "udp.dstport == 4791 && infiniband.bth && infiniband.invariant.crc")
    strange=$(tshark_count "_ws.malformed")
    say "tshark: $all packets to port 4791, $roce of them RRoCE, $strange malformed"
    ((all > 0 && roce == all && strange == 0))
}

# ---- no-std ------------------------------------------------------------------------------------

verb_no-std() {
    packages_for no-std
    local target row
    for target in "${no_std_targets[@]}"; do
        step "no-std: $target" for_target "$target" no_std "$target"
    done
    target=thumbv7em-none-eabihf
    step "no-std: $target, defmt" for_target "$target" \
        cargo_build "$target" -p roce-codec --no-default-features --features defmt
    for row in "${emulated_targets[@]}"; do
        local what emulator words
        IFS='|' read -r target what emulator words <<<"$row"
        read -ra words <<<"$words"
        if rustup_target "$target"; then
            tests "no-std: $target ($what), tests run by $emulator" \
                emulated "$target" "$emulator" "${words[@]}"
        else
            words+=(--no-default-features)
            step "no-std: $target ($what), built only: rustup cannot add it" \
                for_target "$target" cargo_build "$target" "${words[@]}"
        fi
    done
}

no_std() {
    local package words=()
    for package in "${no_std_packages[@]}"; do words+=(-p "$package"); done
    cargo_build "$1" --no-default-features "${words[@]}"
}

cargo_build() {
    local target=$1
    shift
    cargo build --locked --target-dir "$ci_dir/no-std" --target "$target" "$@"
}

# The tests of what reads bytes as numbers, on a processor that reads them otherwise, and of the
# kernels that this one does not have.
emulated() {
    local target=$1 emulator=$2 gnu=${1/-unknown/} upper log=$ci_dir/emulated.log
    upper=${target^^}
    upper=${upper//-/_}
    export "CARGO_TARGET_${upper}_LINKER=$gnu-gcc"
    export "CARGO_TARGET_${upper}_RUNNER=$emulator -L /usr/$gnu"
    # A tenth of the speed or less.
    export PROPTEST_CASES=32
    shift 2
    cargo test --locked --no-fail-fast --target "$target" --target-dir "$ci_dir/emulated" \
        --lib --tests "$@" -- --nocapture 2>&1 | tee "$log"
    if grep 'this CPU cannot run' "$log"; then
        say "ci.sh: $emulator was to run every kernel"
        return 1
    fi
}

# Whether rustup has the target's standard library, or gets it. Once it could not, it is not asked
# for the next one: each time takes minutes.
rustup_target() {
    rustup target list --installed 2>/dev/null | grep -qx "$1" && return
    [[ ! -e $ci_dir/no-rustup ]] || return 1
    timeout 300 rustup target add "$1" >&2 && return
    touch "$ci_dir/no-rustup"
    return 1
}

# for_target TARGET COMMAND...: runs cargo for a target that need not be this machine's, by rustup's
# compiler or else by Debian's.
for_target() {
    local target=$1
    shift
    if rustup_target "$target"; then
        "$@"
    else
        say "ci.sh: rustup cannot add $target; building core with Debian's compiler instead"
        by_debian "$@"
    fi
}

# Where rustup's server is out of reach: Debian's current compiler with its sources, unpacked
# under target/ and not installed, builds `core` for any target.
by_debian() {
    local root=$ci_dir/rustc-web deb
    if [[ ! -x $root/usr/bin/rustc ]]; then
        local std llvm
        apt-cache show rustc-web >/dev/null 2>&1 || as_root apt-get update -qq
        std=$(apt_dependency libstd-rust-web-dev '^libstd-rust-web-')
        llvm=$(apt_dependency "${std:-libstd-rust-web-dev}" '^libllvm')
        mkdir -p "$root/debs"
        (
            cd "$root/debs"
            apt-get download -qq rustc-web libstd-rust-web-dev rust-web-src "$std" "$llvm"
        ) || {
            say "missing: the target's core library; rustup and apt (rustc-web) both failed"
            return 1
        }
        for deb in "$root"/debs/*.deb; do dpkg-deb -x "$deb" "$root"; done
        rm -r "$root/debs"
    fi
    local libraries linkers
    libraries=$(echo "$root"/usr/lib/*-linux-gnu)
    # rustup's own linker serves every target.
    linkers=$(echo "$(rustc --print sysroot)"/lib/rustlib/*-linux-gnu/bin)
    (
        export LD_LIBRARY_PATH=$libraries RUSTC=$root/usr/bin/rustc PATH=$linkers:$PATH
        export RUSTC_BOOTSTRAP=1 CARGO_UNSTABLE_BUILD_STD=core
        export CARGO_UNSTABLE_BUILD_STD_FEATURES=compiler-builtins-mem
        "$@"
    )
}

apt_dependency() {
    apt-cache depends "$1" | awk -v name="$2" '$1 == "Depends:" && $2 ~ name { print $2; exit }'
}

# ---- panic-free --------------------------------------------------------------------------------

verb_panic-free() {
    packages_for panic-free
    local row words
    for row in "${panic_free_matrix[@]}"; do
        read -ra words <<<"${row#*|}"
        # A program for Linux is linked by this machine's own linker.
        [[ $row != *x86_64* || $(uname -m) == x86_64 ]] || continue
        step "panic-free: ${row%%|*}" panic_free "${words[@]}"
    done
}

panic_free() {
    export CARGO_TARGET_DIR=$ci_dir/panic-free
    if [[ ${1-} == --target ]]; then
        for_target "$2" tests/panic-free/run "$@"
    else
        tests/panic-free/run
    fi
}

# ---- size --------------------------------------------------------------------------------------

verb_size() {
    packages_for size
    step "size: code, stack, instructions a packet on a Cortex-M4" size
}

size() {
    export CARGO_TARGET_DIR=$ci_dir/size
    for_target "$size_target" tests/size/run
}

# ---- firmware ----------------------------------------------------------------------------------

verb_firmware() {
    packages_for firmware
    tests "firmware: the engine against itself on a bare AArch64 core" firmware
}

firmware() {
    export CARGO_TARGET_DIR=$ci_dir/firmware
    for_target "$firmware_target" tests/firmware/run
}

# ---- capi --------------------------------------------------------------------------------------

verb_capi() {
    packages_for capi
    tests "capi: header, library, a responder in C" codec/capi/test
}

# ---- fuzz --------------------------------------------------------------------------------------

verb_fuzz() {
    packages_for fuzz
    step "fuzz: build" fuzz_build
    local file targets=()
    for file in tests/fuzz/src/bin/*.rs; do
        [[ ! -e $file ]] || targets+=("$(basename "$file" .rs)")
    done
    # As many at a time as the least machine has cores.
    local at
    for ((at = 0; at < ${#targets[@]}; at += 2)); do
        tests "fuzz: ${targets[*]:at:2}, $fuzz_seconds s" fuzz_run "${targets[@]:at:2}"
    done
}

fuzz_build() {
    need tests/fuzz/run "the fuzz targets"
    tests/fuzz/run --build
}

# Targets side by side, each with an output of its own.
fuzz_run() {
    local target runs=() ok=0 at
    for target; do
        tests/fuzz/run "$target" "$fuzz_seconds" >"$ci_dir/fuzz-$target.log" 2>&1 &
        runs+=($!)
    done
    for ((at = 1; at <= $#; at++)); do
        wait "${runs[at - 1]}" && ok=$((ok + 1))
        cat "$ci_dir/fuzz-${!at}.log"
    done
    say "$ok passed, $(($# - ok)) failed"
    ((ok == $#))
}

# ---- bench -------------------------------------------------------------------------------------

verb_bench() {
    step "bench" bench
}

bench() {
    local log=$ci_dir/bench.log
    {
        cargo bench --locked --workspace --exclude roce-pcap --bench '*'
        # Without Parquet and Arrow, which take minutes to build and are not measured here.
        cargo bench --locked -p roce-pcap --no-default-features --features compression --bench pcap
    } 2>&1 | tee "$log"
    grep -q '^ratio ' "$log" || {
        say "missing: a benchmark that prints a line 'ratio NAME ours=... peer=... x=...'"
        return 1
    }
}

# ---- bench-pcap --------------------------------------------------------------------------------

# Beside tshark, which takes half a minute a round: not among `all`.
verb_bench-pcap() {
    packages_for bench-pcap
    step "bench-pcap: a million packets, beside tshark" tests/bench-pcap/run
}

# ---- interop -----------------------------------------------------------------------------------

verb_interop() {
    packages_for interop
    tests "interop: a Linux rdma_rxe peer" interop
}

interop() {
    need tests/interop/run "the scenarios against a real Linux peer"
    cargo build --locked --release -p roce-testbed --bins
    as_root tests/interop/run
}

# ---- all, extended -----------------------------------------------------------------------------

verb_all() {
    local verb
    for verb in fmt lint test no-std panic-free size firmware capi fuzz bench interop; do
        "verb_$verb"
    done
}

# Ten minutes a fuzz target, properties over a hundred times as many cases, every mutation of
# statements.toml, the crates that hold `unsafe` under AddressSanitizer, Spark, and a race with tshark.
verb_extended() {
    packages_for extended
    tests "extended: more cases" extended_tests
    tests "extended: Spark agrees with DuckDB" cargo_test -p roce-pcap --test spark
    tests "extended: every mutation turns its test red" tests/mutations/run
    step "extended: AddressSanitizer" sanitized_tests
    fuzz_seconds=600
    verb_fuzz
    verb_bench-pcap
    verb_interop
}

extended_tests() {
    export PROPTEST_CASES=25600
    cargo_test --release --workspace --lib --bins --tests
}

sanitized_tests() {
    RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo test --locked --lib --tests \
        --target x86_64-unknown-linux-gnu --target-dir "$ci_dir/asan" -p roce-crc -p roce-dataplane
}

# ---- Main --------------------------------------------------------------------------------------

report() {
    say ""
    say "==== summary"
    printf '%s\n' "${summary[@]}"
    printf '%5d s  in all\n' "$SECONDS"
    if ((skipped > 0)); then
        say "$passed passed, $failed failed, $skipped skipped"
    else
        say "$passed passed, $failed failed"
    fi
    ((failed == 0))
}

main() {
    local verb verbs=("$@")
    ((${#verbs[@]})) || verbs=(all)
    for verb in "${verbs[@]}"; do
        declare -F "verb_$verb" >/dev/null ||
            die "no verb '$verb'; there are: fmt lint test no-std panic-free size firmware" \
                "capi fuzz bench bench-pcap interop all extended"
    done
    command -v cargo >/dev/null ||
        die "cargo is not in PATH: install stable Rust with rustup (https://rustup.rs) first"
    cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
    cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
    rm -f "$ci_dir/no-rustup"
    for verb in "${verbs[@]}"; do "verb_$verb"; done
    report
}

main "$@"
