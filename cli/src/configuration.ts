import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { ConfigError, type LoadedConfig, loadConfig } from '@millrace/server/config';
import type { Surroundings } from './surroundings.ts';

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
  readonly file?: NamedFile;
  readonly defaultHost: string;
}

/** Reads the settings of the server. For wrong settings, writes the errors to stderr and returns `undefined`. */
export function readConfiguration(wanted: Wanted, place: Surroundings): Settings | undefined {
  const file = wanted.file && readSettingsFile(wanted.file, 'the configuration file', place);
  if (wanted.file && !file) return undefined;
  try {
    const { config, warnings, lineAt } = loadConfig({
      ...(file ? { file } : {}),
      env: place.env,
      flags: wanted.flags,
      defaults: { host: wanted.defaultHost },
    });
    for (const warning of warnings) place.err.write(`millrace: warning: ${warning}\n`);
    return { config, lineAt };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    place.err.write(`millrace: these settings cannot be used:\n${error.message}\n`);
    return undefined;
  }
}

/** Reads the text of a file. Undefined, with the reason on stderr, when it cannot be read. */
export function readSettingsFile(
  { path, namedBy }: NamedFile,
  what: string,
  place: Surroundings,
): { path: string; text: string } | undefined {
  try {
    return { path, text: readFileSync(path, 'utf8') };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    const reason = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`;
    place.err.write(`millrace: ${what} ${resolve(path)}, named by ${namedBy}, ${reason}.\n`);
    return undefined;
  }
}
