# SPDX-License-Identifier: Apache-2.0
"""code_programs.py - programs for code runs: one table, language by case

Each language has:
    success     prints its argument, its stdin and a snowman
    fails       ends with status 7
    syntax      is not a valid program
    forever     prints "so far" and never ends
    memory      uses 200 MB (java 120) and prints "got it"
The languages of FULL also have:
    pids        starts 100 processes and prints "all", or the error
    connect     connects to {port} of 127.0.0.1 and prints "connected"
    write       tries to write to /usr/x, /etc/x and /x, prints the errors, and prints "in", which it wrote to its directory
    fill        writes 100 MB, prints the error, and prints how much was written
    huge        prints 3,000,000 times "x"
    binary      prints the bytes 0 to 255
    artifact    writes "made" to out/a.txt
"""

_JAVASCRIPT = {
    "fails": "process.exit(7)",
    "syntax": "let x = = 1",
    "forever": "console.log('so far'); setInterval(() => 0, 1000)",
    "memory": "const x = []; for (let i = 0; i < 40; i++) x.push(Buffer.alloc(5000000, 1)); console.log('got it')",
    "pids": "const { spawn } = require('child_process'); let bad = 0;\n"
            "for (let i = 0; i < 100; i++) { const c = spawn('sleep', ['30']); c.on('error', () => bad++); c.unref() }\n"
            "setTimeout(() => { console.log(bad ? 'refused' : 'all'); process.exit(bad ? 1 : 0) }, 100)",
    "connect": "require('net').connect({port}, '127.0.0.1', () => { console.log('connected'); process.exit() })",
    "write": "const fs = require('fs'); for (const p of ['/usr/x', '/etc/x', '/x'])\n"
             "try { fs.writeFileSync(p, 'x') } catch (e) { console.log(e.code) }\n"
             "fs.writeFileSync('/sandbox/y', 'in'); console.log(fs.readFileSync('y', 'utf8'))",
    "fill": "const fs = require('fs'); try { fs.writeFileSync('full', Buffer.alloc(100000000)) } catch (e) { console.log(e.code) }\n"
            "console.log(fs.statSync('full').size)",
    "huge": "process.stdout.write('x'.repeat(3000000))",
    "binary": "process.stdout.write(Buffer.from([...Array(256).keys()]))",
    "artifact": "const fs = require('fs'); fs.mkdirSync('out'); fs.writeFileSync('out/a.txt', 'made')",
}

PROGRAMS = {
    "bash": {
        "success": 'read -r line; echo "$1 $line ☃"',
        "fails": "echo bad >&2; exit 7",
        "syntax": "if then",
        "forever": "echo so far; while :; do sleep 1; done",
        "memory": "x=$(head -c 200000000 /dev/zero | tr '\\0' x); [ ${#x} = 200000000 ] && echo got it",
        "pids": "for i in $(seq 100); do sleep 30 & done; [ $(jobs -p | wc -l) = 100 ] && echo all",
        "connect": "exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected",
        "write": "echo x >/usr/x; echo x >/etc/x; echo x >/x; echo in >/sandbox/y && cat /sandbox/y",
        "fill": "head -c 100000000 /dev/zero >/sandbox/full; stat -c %s /sandbox/full",
        "huge": "head -c 3000000 /dev/zero | tr '\\0' x",
        "binary": "for i in {0..255}; do printf \"\\\\x$(printf %x $i)\"; done",
        "artifact": "mkdir out; printf made >out/a.txt",
    },
    "python": {
        "success": "import sys; print(sys.argv[1], input(), '☃')",
        "fails": "raise SystemExit(7)",
        "syntax": "def (",
        "forever": "import time; print('so far'); time.sleep(600)",
        "memory": "x = b'x' * 200000000; print('got it')",
        "pids": "import subprocess\nfor i in range(100): subprocess.Popen(['sleep', '30'])\nprint('all')",
        "connect": "import socket; socket.create_connection(('127.0.0.1', {port})); print('connected')",
        "write": "for p in ('/usr/x', '/etc/x', '/x'):\n  try: open(p, 'w')\n  except OSError as e: print(e.strerror)\n"
                 "open('/sandbox/y', 'w').write('in'); print(open('y').read())",
        "fill": "import os\ntry:\n  open('full', 'wb').write(bytes(100000000))\nexcept OSError as e: print(e.strerror)\n"
                "print(os.stat('full').st_size)",
        "huge": "print('x' * 3000000, end='')",
        "binary": "import sys; sys.stdout.buffer.write(bytes(range(256)))",
        "artifact": "import os; os.mkdir('out'); open('out/a.txt', 'w').write('made')",
    },
    "javascript": {
        **_JAVASCRIPT,
        "success": "console.log(process.argv[2], require('fs').readFileSync(0, 'utf8').trim(), '☃')",
    },
    # The same programs with a type, which is a syntax error without a compiler.
    "typescript": {
        **{case: f"const typed: number = 1\n{text}" for case, text in _JAVASCRIPT.items()},
        "success": "enum E { A = 1 }\nnamespace N { export const s: string = '☃' }\nimport { readFileSync } from 'fs'\n"
                   "const line: string = await Promise.resolve(readFileSync(0, 'utf8').trim())\n"
                   "console.log(process.argv[2], line, N.s.repeat(E.A))",
    },
    "c": {
        "success": '#include <stdio.h>\nint main(int n, char **v) { char s[9]; if (!n || !fgets(s, 3, stdin)) return 1;\n'
                   'printf("%s %s ☃\\n", v[1], s); return 0; }',
        "fails": "int main(void) { return 7; }",
        "syntax": "int main( {",
        "forever": '#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts("so far"); fflush(stdout); for (;;) pause(); }',
        "memory": '#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void) { char *p = malloc(200000000);\n'
                  'if (!p) { perror("memory"); return 1; }\nmemset(p, 1, 200000000); puts(p[199999999] == 1 ? "got it" : ""); }',
    },
    "c++": {
        "success": "#include <iostream>\nint main(int, char **v) { std::string s; std::cin >> s; std::cout << v[1] << ' ' << s << \" ☃\\n\"; }",
        "fails": "int main() { return 7; }",
        "syntax": "int main( {",
        "forever": '#include <iostream>\nint main() { std::cout << "so far" << std::endl; for (;;); }',
        "memory": '#include <cstdio>\n#include <vector>\nint main() { std::vector<char> v(200000000, 1); puts(v[199999999] ? "got it" : ""); }',
    },
    "perl": {
        "success": "chomp(my $line = <STDIN>); print \"$ARGV[0] $line ☃\\n\"",
        "fails": "exit 7",
        "syntax": "my $x = ;",
        "forever": "$| = 1; print 'so far'; 1 while 1;",
        "memory": "my $n = 200000000; my $x = 'x' x $n; print 'got it' if length($x) == $n",
    },
    "ruby": {
        "success": "puts \"#{ARGV[0]} #{STDIN.gets.chomp} ☃\"",
        "fails": "exit 7",
        "syntax": "def (",
        "forever": "$stdout.sync = true; puts 'so far'; sleep",
        "memory": "x = 'x' * 200000000; puts 'got it'",
    },
    "php": {
        "success": "echo $argv[1], ' ', trim(fgets(STDIN)), \" ☃\\n\";",
        "fails": "exit(7);",
        "syntax": "<?php function (;",
        "forever": "echo 'so far'; while (true);",
        "memory": "ini_set('memory_limit', '-1'); $x = str_repeat('x', 200000000); echo 'got it';",
    },
    "lua": {
        "success": "print(arg[1], io.read(), '☃')",
        "fails": "os.exit(7)",
        "syntax": "x = = 1",
        "forever": "io.write('so far'); io.flush(); while true do end",
        "memory": "local x = string.rep('x', 200000000); print('got it')",
    },
    "java": {
        "success": "class Main { public static void main(String[] a) { System.out.println(a[0] + ' ' + new java.util.Scanner(System.in)"
                   ".nextLine() + \" \\u2603\"); } }",
        "fails": "class Main { public static void main(String[] a) { System.exit(7); } }",
        "syntax": "class Main { void f( }",
        "forever": "class Main { public static void main(String[] a) { System.out.println(\"so far\"); for (;;); } }",
        "memory": "class Main { public static void main(String[] a) { byte[][] x = new byte[24][];\n"
                  "for (int i = 0; i < 24; i++) x[i] = new byte[5000000]; System.out.println(\"got it\"); } }",
    },
    "go": {
        "success": 'package main\nimport ("fmt"; "os")\nfunc main() { var s string; fmt.Scan(&s); fmt.Println(os.Args[1], s, "☃") }',
        "fails": 'package main\nimport "os"\nfunc main() { os.Exit(7) }',
        "syntax": "package main\nfunc main( {",
        "forever": 'package main\nimport "fmt"\nfunc main() { fmt.Println("so far"); for {} }',
        "memory": 'package main\nimport "fmt"\nfunc main() { x := make([]byte, 200000000); for i := range x { x[i] = 1 }; fmt.Println("got it") }',
    },
    "rust": {
        "success": "fn main() { let mut s = String::new(); std::io::stdin().read_line(&mut s).unwrap();\n"
                   "println!(\"{} {} ☃\", std::env::args().nth(1).unwrap(), s.trim()); }",
        "fails": "fn main() { std::process::exit(7) }",
        "syntax": "fn main( {",
        "forever": 'fn main() { println!("so far"); loop {} }',
        "memory": 'fn main() { let x = vec![1u8; 200_000_000]; println!("{}", if x[199_999_999] == 1 { "got it" } else { "" }); }',
    },
    "r": {
        "success": "cat(commandArgs(TRUE)[1], readLines('stdin', 1), '☃\\n')",
        "fails": "quit(status = 7)",
        "syntax": "x <- <- 1",
        "forever": "cat('so far'); while (TRUE) {}",
        "memory": "x <- rep(1, 25e6); cat('got it')",
    },
}
FULL = ("bash", "python", "javascript", "typescript")
# The tool that an image must have; those of a compiler come first.
TOOLS = {"bash": "bash", "python": "python3", "javascript": "node", "typescript": "esbuild", "c": "gcc", "c++": "g++", "perl": "perl",
         "ruby": "ruby", "php": "php", "lua": "lua", "java": "java", "go": "go", "rust": "rustc", "r": "Rscript"}
# Languages that install-deps installs are always tested; the others only if the machine has them.
ALWAYS = (*FULL, "c", "c++", "perl", "ruby", "php", "lua")
