# Prints rows of the table of scripts/kernel-table, one per kernel, by mangled name. Reads
# cuobjdump's resource usage for three architectures, and then its disassembly for sm_90.

function hex(digits, i, v) {
    for (i = 1; i <= length(digits); i++)
        v = v * 16 + index("0123456789abcdef", substr(digits, i, 1)) - 1
    return v + 0
}

function min(a, b) { return a < b ? a : b }

# Number of blocks that are resident on a multiprocessor of sm_90. A multiprocessor has four parts
# of 16384 registers, which are allocated to a warp in units of 256. It has 228 KiB of shared
# memory, and each block uses 1 KiB more than it requests. It runs at most 64 warps and 32 blocks.
function blocks_of(regs, bytes, warps, most) {
    most = int(4 * int(16384 / (int((regs * 32 + 255) / 256) * 256)) / warps)
    most = min(most, min(int(64 / warps), 32))
    return min(most, int(233472 / (int((bytes + 127) / 128) * 128 + 1024)))
}

# Returns the name of the function in a mangled name: _Z12bn_bwd_applyI...
function plain_name(mangled, digits) {
    sub(/^_Z/, "", mangled)
    match(mangled, /^[0-9]+/)
    digits = RLENGTH
    return substr(mangled, digits + 1, substr(mangled, 1, digits) + 0)
}

function width_of(load) {
    return load ~ /\.128/ ? 16 : load ~ /\.64/ ? 8 : load ~ /\.[US]16/ ? 2 : load ~ /\.[US]8/ ? 1 : 4
}

# A register was read or written, so a load into it is complete.
function settle(reg, base) {
    for (base in flying)
        if (reg >= base + 0 && reg < base + flying[base] / 4) {
            bytes -= flying[base]
            wide -= flying[base] == 16
            delete flying[base]
            return
        }
}

# Sets most_bytes and most_wide to the maximum number of bytes, and of 16-byte loads, that are in
# flight at the same time in instructions [from, to]. An unconditional jump ends all loads in
# flight.
function scan(from, to, i, text) {
    most_bytes = most_wide = bytes = wide = 0
    split("", flying)
    for (i = from; i <= to; i++) {
        text = operands[i]
        while (match(text, /[^U]R[0-9]+/)) {
            settle(substr(text, RSTART + 2, RLENGTH - 2) + 0)
            text = substr(text, RSTART + RLENGTH)
        }
        if (code[i] ~ /^LDG/) {
            match(operands[i], /R[0-9]+/)
            flying[substr(operands[i], RSTART + 1, RLENGTH - 1) + 0] = width_of(code[i])
            bytes += width_of(code[i])
            wide += width_of(code[i]) == 16
        }
        if (bytes > most_bytes)
            most_bytes = bytes
        if (wide > most_wide)
            most_wide = wide
        if (always[i] && code[i] ~ /^(BRA|EXIT|RET)/) {
            split("", flying)
            bytes = wide = 0
        }
    }
}

function add_loop(resident_threads) {
    if (most_bytes == 0)
        return
    loads = loads (loads == "" ? "" : ", ") most_wide
    kib = kib (kib == "" ? "" : ", ") sprintf("%.0f", most_bytes * resident_threads / 1024)
}

# Prints the row of the kernel whose instructions have been read.
function print_row(i, name, alone, size, warps, blocks, begin, last) {
    name = plain_name(kernel)
    alone = index(single, " " name "=")
    size = alone ? substr(single, alone + length(name) + 2) + 0 : threads
    warps = int((size + 31) / 32)
    blocks = blocks_of(regs["sm_90", kernel], shared[kernel], warps)
    if (index(columns, " " name " "))
        blocks = min(blocks, resident)
    if (index(wide_kernels, " " name " "))
        blocks = min(blocks, resident_wide)
    if (alone)
        blocks = 1
    loads = kib = ""
    last = -1
    for (i = 0; i < n; i++) { # a jump back ends a loop; an inner one ends first
        if (code[i] !~ /^BRA/ || !match(operands[i], /0x[0-9a-f]+/))
            continue
        begin = at[hex(substr(operands[i], RSTART + 2, RLENGTH - 2))]
        if (begin >= i || begin <= last)
            continue
        scan(begin, i)
        if (most_bytes > 0)
            last = i
        add_loop(blocks * size)
    }
    if (loads == "") {
        scan(0, n - 1)
        add_loop(blocks * size)
    }
    printf "| %s | %d | %d | %d | %d | %d | %d | %d | %s | %s |\n", kernel, size, shared[kernel],
        regs["sm_80", kernel], regs["sm_90", kernel], regs["sm_100", kernel], blocks,
        blocks * warps, loads == "" ? "-" : loads, kib == "" ? "-" : kib
}

/^arch = / { arch = $3 }

/^ Function / { kernel = substr($2, 1, length($2) - 1) }

match($0, /^ +REG:[0-9]+/) {
    sub(/.*REG:/, "", $1)
    regs[arch, kernel] = $1
    sub(/.*SHARED:/, "")
    if (arch == "sm_90") # sm_90 and later count the KiB that the system takes of each block
        shared[kernel] = $1 > 1024 ? $1 - 1024 : $1
}

/Function :/ {
    if (n)
        print_row()
    kernel = $3
    n = 0
    split("", at)
}

match($0, /^ +\/\*[0-9a-f]+\*\/ /) {
    text = $0
    sub(/^ +\/\*/, "", text)
    at[hex(substr(text, 1, index(text, "*") - 1))] = n
    sub(/^[0-9a-f]+\*\/ +/, "", text)
    sub(/ ;.*/, "", text)
    always[n] = text !~ /^@/
    sub(/^@[^ ]+ +/, "", text)
    code[n] = text
    sub(/ .*/, "", code[n])
    operands[n] = substr(text, length(code[n]) + 1)
    n++
}

END {
    if (n)
        print_row()
}
