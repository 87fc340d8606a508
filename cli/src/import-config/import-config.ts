import { resolve } from 'node:path';
import { ConfigError } from '@millrace/server/config';
import { paintFor } from '../paint.ts';
import type { ExitCode, RunContext } from '../run-context.ts';
import { filesOf, UnwritableFile, writeFiles } from './files.ts';
import { type ExportInput, UnreadableExport, workspacesIn } from './inputs.ts';
import { readPublicApi } from './public-api.ts';
import { ApiClient, ApiError } from './public-api-client.ts';
import { reportText } from './report.ts';
import { translate } from './translate.ts';
import type { Workspace } from './workspace.ts';

export interface ImportConfigOptions {
  /** Files and folders, or one URL. */
  readonly from: readonly string[];
  readonly output: string;
  readonly token?: string;
  /** Parts that the workspace does not have, where they cannot be read. */
  readonly none?: readonly string[];
  readonly force?: boolean;
  readonly json?: boolean;
}

/**
 * `millrace import-config`: turns the export of another product into a configuration file, and says of each
 * thing of the export what became of it. Changes no server. docs/guide/import-config.md.
 */
export async function importConfig(options: ImportConfigOptions, context: RunContext): Promise<ExitCode> {
  const input = inputOf(options, context.env);
  if (typeof input === 'string') {
    context.err.write(`millrace: ${input}.\n`);
    return 2;
  }
  try {
    const workspace = await readWorkspace(input, options.none ?? [], context);
    const translated = translate(workspace, context.env);
    const files = filesOf(translated, options.output);
    writeFiles(files, options.force === true);
    const paths = files.map(({ path, what, command }) => ({
      path,
      what,
      ...(command === undefined ? {} : { command }),
    }));
    if (options.json === true)
      context.out.write(`${JSON.stringify({ files: paths, ...translated.report }, undefined, 2)}\n`);
    else {
      context.out.write(reportText(translated.report, paintFor(context.out, context.env)));
      for (const { path, what } of paths) context.err.write(`millrace: wrote ${path}: ${what}.\n`);
      for (const { command } of paths) if (command !== undefined) context.err.write(`  ${command}\n`);
    }
    return 0;
  } catch (error) {
    const isKnown =
      error instanceof UnreadableExport || error instanceof UnwritableFile || error instanceof ApiError;
    if (!isKnown && !(error instanceof ConfigError)) throw error;
    const bug =
      error instanceof ConfigError ? 'the file would not be taken, which is a bug of this program:\n' : '';
    context.err.write(`millrace: ${bug}${error.message}.\n`);
    return 1;
  }
}

type Input = ExportInput | { readonly url: URL; readonly token: string };

/** The input to read, or a message why that is not clear. */
function inputOf({ from, token }: ImportConfigOptions, env: NodeJS.ProcessEnv): Input | string {
  const [first = ''] = from;
  if (!from.some((one) => /^https?:/i.test(one))) return { paths: from.map((path) => resolve(path)) };
  if (from.length > 1) return 'name either one URL, or files and folders';
  const url = URL.parse(first);
  if (url === null) return `${first} is no URL`;
  if (url.username !== '' || url.password !== '')
    return 'leave user name and password out of the URL: the token signs in';
  const isLoopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol === 'http:' && !isLoopback) return 'the URL must be https: others could read the token';
  const given = token ?? env['SEGMENT_TOKEN'] ?? '';
  if (given === '')
    return 'a URL needs a token of the Public API: set SEGMENT_TOKEN, or give it with --token';
  if (!/^[!-~]+$/.test(given)) return 'the token is not one word of visible ASCII, as every token is';
  return { url, token: given };
}

async function readWorkspace(input: Input, none: readonly string[], context: RunContext): Promise<Workspace> {
  const say = (line: string) => void context.err.write(`millrace: ${line}.\n`);
  const workspace =
    'paths' in input
      ? await workspacesIn(input, none)
      : await readPublicApi(new ApiClient(input, { stopping: context.stopping, say }), none);
  if (workspace.sources.length > 0 || workspace.destinations.length > 0) return workspace;
  const reasons = workspace.unread.slice(0, 5).map(({ id, reason }) => `\n  ${id} ${reason}`);
  throw new UnreadableExport(`there is no source and no destination in it${reasons.join('')}`);
}
