import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { grammar } from '../../../cli/src/grammar.ts';
import type { Run } from '../../../cli/src/grammar-options.ts';
import { loadConfig } from '../../src/config/load.ts';
import { ROOT } from '../support/program.ts';
import { blocksOf, GENERATED, PAGES, textOf, whereOf } from './pages.ts';

const blocks = PAGES.flatMap(blocksOf);
const ofLanguage = (...languages: string[]) =>
  blocks.filter(({ language, notRun, runBy }) => languages.includes(language) && !notRun && !runBy);

/** Run or checked, here or in blocks.clients.ts; and what is only shown. */
const RUN = ['sh', 'js', 'ts', 'py', 'go', 'yaml', 'json'];
const SHOWN = ['', 'html', 'nginx', 'text'];

/** Variables that examples take from the environment. */
const ENV = {
  CRM_SECRET: 'a secret of the crm',
  CRM_TOKEN: 't',
  INCUMBENT_WRITE_KEY: 'wk_there',
  MILLRACE_ADMIN_TOKEN: 'a-token-of-the-admin',
};

/** Examples of destinations name sources that stand elsewhere on the page, or on none. */
const SOURCES = 'sources: [{ name: website, writeKeys: [wk_a] }, { name: app, writeKeys: [wk_b] }]\n';

describe('the documentation', () => {
  it('has code in languages that are run or only shown, and says which test runs what', () => {
    const unknown = blocks.filter(({ language }) => ![...RUN, ...SHOWN].includes(language));
    expect(unknown.map(whereOf)).toEqual([]);
    for (const { runBy } of blocks)
      if (runBy) expect([runBy, existsSync(join(ROOT, runBy))]).toEqual([runBy, true]);
  });

  it.each(ofLanguage('json').map((block) => [whereOf(block), block] as const))(
    'has JSON at %s',
    (_, { text }) => {
      expect(() => JSON.parse(text)).not.toThrow();
    },
  );

  it.each(ofLanguage('yaml').map((block) => [whereOf(block), block] as const))(
    'has a configuration at %s that the server takes without a warning',
    (_, { text }) => {
      const name = /^# (\S+)\n/.exec(text)?.[1] ?? 'millrace.yaml';
      if (!name.startsWith('millrace')) {
        // The configuration of another program; that it is YAML is all that can be said here.
        expect(parse(text)).toBeTypeOf('object');
        return;
      }
      const needs = Object.hasOwn(parse(text) as object, 'sources') ? '' : SOURCES;
      const file = { path: 'millrace.yaml', text: needs + text };
      expect(loadConfig({ file, env: ENV, flags: {}, defaults: { host: '127.0.0.1' } }).warnings).toEqual([]);
    },
  );

  it('has examples of the command line that the program understands', async () => {
    const lines = blocks
      .filter(({ page, language }) => page === GENERATED && language === 'sh')
      .flatMap(({ text }) => text.trim().split('\n'));
    expect(lines.length).toBeGreaterThan(20);
    for (const line of lines) {
      for (const command of commandsOf(line)) {
        let ran = 0;
        const run: Run = () => async () => void ran++;
        await grammar(run, '0').parseAsync(['node', 'millrace', ...command]);
        expect([line, ran]).toEqual([line, 1]);
      }
    }
  });

  it('has commands that this program, and those of others, understand, also where they are not run', async () => {
    const lines = blocks
      .filter(({ page, language }) => page !== GENERATED && language === 'sh')
      .flatMap((block) => wholeLines(block.text).map((line) => [whereOf(block), line] as const));
    let ran = 0;
    for (const [where, line] of lines) {
      for (const command of ownCommands(line)) {
        const run: Run = () => async () => void ran++;
        const typed = grammar(run, '0').parseAsync(['node', 'millrace', ...command]);
        await expect(typed, `${where}: ${line}`).resolves.toBeDefined();
      }
      for (const { program, options } of foreignCommands(line)) {
        const unknown = options.filter((option) => !KNOWN[program]?.includes(option));
        expect([where, program, unknown]).toEqual([where, program, []]);
      }
    }
    expect(ran).toBeGreaterThan(40);
  });

  it('installs nothing by a name that nobody has published', () => {
    const named = blocks.filter(({ text }) => /npm (install|i) [^\n]*\bmillrace(@\S+)?\s*$/m.test(text));
    expect(named.map(whereOf)).toEqual([]);
  });

  it('has no link to a heading that is not there', () => {
    const pages = [...PAGES, 'docs/README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md'];
    const dead = pages.flatMap((page) => deadLinks(page).map((link) => `${page}: ${link}`));
    expect(dead).toEqual([]);
  });

  it('has an index with every page', () => {
    const index = textOf('docs/README.md');
    const missing = PAGES.filter(
      (page) => page !== 'README.md' && !index.includes(`(${page.slice('docs/'.length)})`),
    );
    expect(missing).toEqual([]);
    const links = [...index.matchAll(/\]\(([^)]+)\)/g)].map(([, link]) => link);
    expect(links.filter((link, nth) => links.indexOf(link) !== nth)).toEqual([]);
  });
});

/**
 * The options that other programs have, of those that the documentation uses: what is not run here would not
 * fail here.
 */
const KNOWN: Readonly<Record<string, readonly string[]>> = {
  'docker build': ['--tag'],
  'docker exec': [],
  'docker rm': ['--force', '--volumes'],
  'docker run': [
    ...['--cap-drop', '--detach', '--env', '--name', '--publish', '--read-only', '--restart', '--rm'],
    ...['--security-opt', '--stop-timeout', '--tmpfs', '--ulimit', '--volume'],
  ],
  'docker stop': ['--time', '--signal'],
  'npm ci': [],
  'npm install': ['--global'],
  'npm pack': ['--silent'],
  'npm run': ['--', '--from', '--seeds', '--seed', '--trace'],
  'npm start': [],
  'systemctl daemon-reload': [],
  'systemctl enable': ['--now'],
  'systemctl start': [],
  'systemctl stop': [],
};

/** Lines as the shell sees them: what ends in a backslash goes on. */
function wholeLines(text: string): string[] {
  return text
    .replace(/\\\n\s*/g, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('#'));
}

/** Commands to this program, under its names here, in a container and behind variables. */
function ownCommands(line: string): string[][] {
  const words = line.replace(/^\s*(?:[A-Z_]+=\S+ )*(?:npx )?/, '').replace(/^docker exec \S+ /, '');
  return commandsOf(words.replace(/^if |; then$/g, '').replace(/\$\((npx )/g, '$(')).filter(
    ([first]) => first !== '$@',
  );
}

function foreignCommands(line: string): { program: string; options: string[] }[] {
  return [...line.matchAll(/(?:^|[ (])(docker|npm|systemctl) ([a-z-]+)((?: (?:"[^"]*"|[^\s|>;)]+))*)/g)].map(
    ([, program, verb, rest = '']) => {
      const words = [...rest.matchAll(/"[^"]*"|\S+/g)].map(([word]) => word);
      // Arguments behind the name of the image are for the program in it.
      const image = words.findIndex((word) => word === 'millrace' && verb === 'run');
      const own = image < 0 ? words : words.slice(0, image);
      return {
        program: `${program} ${verb}`,
        options: own.filter((word) => word.startsWith('--')).map((word) => word.split('=')[0]!),
      };
    },
  );
}

/** The words of each `millrace` in a line, without pipes, redirections and remarks. */
function commandsOf(line: string): string[][] {
  const inner = [...line.matchAll(/[$<]\((millrace [^)]*)\)/g)].map(([, command]) => command!);
  const outer = line.replace(/[$<]\([^)]*\)/g, 'ID');
  return [...inner, outer].flatMap((command) => {
    const [words = ''] = /^millrace (?:"[^"]*"|'[^']*'|[^|>#"'])*/.exec(command) ?? [];
    if (words === '') return [];
    return [[...words.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].slice(1).map(([, a, b, c]) => a ?? b ?? c!)];
  });
}

/** Links to headings; that files are there is looked at by tools/budgets.ts. */
function deadLinks(page: string): string[] {
  const text = textOf(page).replace(/^```.*?^```/gms, '');
  return [...text.matchAll(/\]\(([^)#\s:]*)#([^)\s]+)\)/g)].flatMap(([, path = '', anchor = '']) => {
    const target = path === '' ? page : join(dirname(page), path);
    if (!target.endsWith('.md') || !existsSync(join(ROOT, target))) return [];
    return anchorsOf(target).includes(anchor) ? [] : [`${path}#${anchor}`];
  });
}

/** As code hosts make them of headings. */
function anchorsOf(page: string): string[] {
  return [...textOf(page).matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
