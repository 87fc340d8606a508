import { execFile, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { GIVE_UP_AFTER } from '../../server/test/support/until.ts';

const run = promisify(execFile);

/** A real shell that completes lines with the script from `millrace completion`. */
export interface CompletingShell {
  readonly name: string;
  /** A command that succeeds where the shell is installed. */
  readonly check: readonly string[];
  /** The shell offers options only after a dash. */
  readonly hidesOptions?: true;
  /** The words offered at Tab after each of these lines. The last word of a line is the unfinished one. */
  offered(script: string, lines: readonly (readonly string[])[]): Promise<string[][]>;
}

export const SHELLS: readonly CompletingShell[] = [
  { name: 'bash', check: ['--version'], offered: offeredByBash },
  { name: 'zsh', check: ['-f', '-c', 'zmodload zsh/zpty && zpty probe true'], offered: offeredByZsh },
  { name: 'fish', check: ['--version'], hidesOptions: true, offered: offeredByFish },
];

export function isThere({ name, check }: CompletingShell): boolean {
  return spawnSync(name, check).status === 0;
}

/** Runs a shell in the folder of the script: file names are completed from there. */
async function said(shell: string, args: readonly string[], script: string): Promise<string> {
  const { stdout } = await run(shell, args, { cwd: join(script, '..'), timeout: GIVE_UP_AFTER });
  return stdout;
}

async function offeredByBash(script: string, lines: readonly (readonly string[])[]): Promise<string[][]> {
  const asked = lines.map((words) => {
    const quoted = ['millrace', ...words].map((word) => `'${word}'`).join(' ');
    return `COMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; COMPREPLY=(); _millrace; printf '%s\\0' "\${COMPREPLY[@]}"; echo`;
  });
  const program = `source '${script}'; complete -p millrace >/dev/null || exit 1\n${asked.join('\n')}`;
  const answers = await said('bash', ['--norc', '-c', program], script);
  return answers
    .split('\n')
    .slice(0, -1)
    .map((answer) => answer.split('\0').filter((word) => word !== ''));
}

async function offeredByFish(script: string, lines: readonly (readonly string[])[]): Promise<string[][]> {
  const asked = lines.map((words) => `complete -C 'millrace ${words.join(' ')}'; echo @end`);
  const answers = await said(
    'fish',
    ['--no-config', '-c', `source '${script}'\n${asked.join('\n')}`],
    script,
  );
  return answers
    .split('@end\n')
    .slice(0, -1)
    .map((answer) => answer.split('\n').flatMap((line) => line.split('\t')[0] || []));
}

/**
 * zsh completes only in the editor of an interactive shell, in a terminal that another zsh creates. Tab lists
 * the choices and reports the end. Each mark is written in two parts, because the terminal echoes typed text.
 */
const IN_A_TERMINAL = `
zmodload zsh/zpty
zpty shell zsh -f -i
hear() { local all='' part; while [[ $all != *"$1"* ]]; do zpty -r shell part || exit 1; all+=$part; done; print -rn -- "$all" }
zpty -w shell 'PS1=; stty cols 2000 rows 900; autoload -Uz compinit; compinit -u -D
zstyle ":completion:*" verbose no; LISTMAX=9999; source '\${(q)1}'
offer() { zle list-choices; zle -R; BUFFER=; zle -I; print "@e""nd@" }; zle -N offer; bindkey "^I" offer; print "@rea""dy@"'
hear @ready@ >/dev/null
for line in "\${@[2,-1]}"; do
  zpty -w -n shell "$line"$'\\t'
  hear @end@
done
zpty -d shell
`;

// biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal is told with them where to write.
const CONTROLS = /\x1b\[[\d;?]*[a-zA-Z]|\r/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the cursor goes up again, back to the line.
const BACK_UP = /\x1b\[\d*A/;

async function offeredByZsh(script: string, lines: readonly (readonly string[])[]): Promise<string[][]> {
  const typed = lines.map((words) => `millrace ${words.join(' ')}`);
  const answers = await said('zsh', ['-f', '-c', IN_A_TERMINAL, 'zsh', script, ...typed], script);
  return typed.map((line, nth) => {
    const screen = answers.split('@end@')[nth]!;
    const list = screen.slice(screen.lastIndexOf(`${line}\r\r\n`) + line.length).split(BACK_UP)[0]!;
    const words = list.replaceAll(CONTROLS, '').split(/ {2,}|\n/);
    return words.map((word) => word.replaceAll('\\', '').trim()).filter((word) => word !== '');
  });
}
