import { resolve } from 'node:path';
import { ConfigError, type LoadedConfig, loadConfig } from '@millrace/server/config';
import { type Notices, sentences } from './notices.ts';
import type { RunContext } from './run-context.ts';
import { readTextFile } from './text-file.ts';

/** Server settings from the command line. The environment, the file and the defaults supply absent ones. */
export interface ServerFlags {
  readonly host?: string;
  readonly port?: number;
  readonly data?: string;
  readonly log?: string;
  readonly database?: string;
}

export type Settings = Pick<LoadedConfig, 'config' | 'lineAt'>;

/** A file of settings, and the option or variable that named it, for the message when it cannot be read. */
export interface NamedFile {
  readonly path: string;
  readonly namedBy: string;
}

export interface Wanted {
  readonly flags: ServerFlags;
  readonly file?: NamedFile | undefined;
  readonly defaultHost: string;
}

/** Reads the settings of the server. Prints their mistakes and returns `undefined` if there are any. */
export function readConfiguration(
  wanted: Wanted,
  { env, err }: Pick<RunContext, 'env' | 'err'>,
  notices: Notices = sentences(err),
): Settings | undefined {
  const file = wanted.file && readSettingsFile(wanted.file, 'the configuration file', notices);
  if (wanted.file && !file) return undefined;
  try {
    const { config, warnings, lineAt } = loadConfig({
      file,
      env,
      flags: wanted.flags,
      defaults: { host: wanted.defaultHost },
    });
    for (const msg of warnings) notices.warn({ event: 'settings.doubtful', msg });
    return { config, lineAt };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const msg = `these settings cannot be used:\n${error.message}`;
    notices.error({ event: 'settings.refused', msg });
    return undefined;
  }
}

/** Reads the text of a file. Prints why it cannot be read, and returns `undefined` then. */
function readSettingsFile(
  { path, namedBy }: NamedFile,
  what: string,
  notices: Notices,
): { path: string; text: string } | undefined {
  const text = readTextFile(path);
  if (typeof text === 'string') return { path, text };
  const msg = `${what} ${resolve(path)}, named by ${namedBy}, ${text.reason}`;
  notices.error({ event: 'settings.refused', msg });
  return undefined;
}
