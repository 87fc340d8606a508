import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../support/program.ts';

/** One instruction of a Dockerfile, its lines joined. */
export interface Instruction {
  readonly name: string;
  /** `--from=program` → `from: 'program'`. */
  readonly flags: Readonly<Record<string, string>>;
  readonly rest: string;
}

/** The instructions between two FROMs. */
export interface Stage {
  readonly image: string;
  readonly name: string | undefined;
  readonly instructions: readonly Instruction[];
}

export function instructionsOf(text: string): Instruction[] {
  const joined = text
    .split('\n')
    .filter((line) => !/^\s*#/.test(line))
    .join('\n')
    .replace(/\\\n\s*/g, '');
  return joined
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, name = '', flags = '', rest = ''] = /^(\S+)\s+((?:--\S+\s+)*)(.*)$/.exec(line) ?? [];
      const pairs = flags.trim().split(/\s+/).filter(Boolean);
      const named = pairs.map((flag): [string, string] => {
        const [key = '', ...value] = flag.slice(2).split('=');
        return [key, value.join('=')];
      });
      return { name, flags: Object.fromEntries(named), rest: rest.trim() };
    });
}

function stagesOf(instructions: readonly Instruction[]): Stage[] {
  const stages: { image: string; name: string | undefined; instructions: Instruction[] }[] = [];
  for (const instruction of instructions) {
    if (instruction.name === 'FROM') {
      const [image = '', name] = instruction.rest.split(/\s+AS\s+/);
      stages.push({ image, name, instructions: [] });
    } else stages.at(-1)?.instructions.push(instruction);
  }
  return stages;
}

/** The exec form, `["node", "main.js"]`; anything else throws. */
export function execForm(rest: string): string[] {
  return JSON.parse(rest) as string[];
}

export function readDockerfile(): Stage[] {
  return stagesOf(instructionsOf(readFileSync(join(ROOT, 'Dockerfile'), 'utf8')));
}

/**
 * Whether the build sees a path, by the rules of .dockerignore: the last pattern that matches it or a folder
 * above counts.
 */
export function contextOf(text: string): (path: string) => boolean {
  const patterns = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => ({ seen: line.startsWith('!'), pattern: patternOf(line.replace(/^!/, '')) }));
  return (path) => {
    let seen = true;
    for (const one of patterns) if (one.pattern.test(path)) seen = one.seen;
    return seen;
  };
}

/** Matches the path itself and everything below it. */
function patternOf(line: string): RegExp {
  const body = line
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('**/', '\u0000')
    .replaceAll('*', '[^/]*')
    .replaceAll('\u0000', '(?:.*/)?');
  return new RegExp(`^${body}(?:/.*)?$`);
}

/** Every file the build sees; folders that nothing below can be seen in are not walked. */
export function contextFiles(): string[] {
  const seen = contextOf(readFileSync(join(ROOT, '.dockerignore'), 'utf8'));
  const files: string[] = [];
  const walk = (folder: string): void => {
    for (const entry of readdirSync(join(ROOT, folder), { withFileTypes: true })) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.name === 'node_modules' || entry.name === '.git') continue;
      if (entry.isDirectory()) walk(path);
      else if (seen(path) && existsSync(join(ROOT, path))) files.push(path);
    }
  };
  walk('');
  return files;
}
