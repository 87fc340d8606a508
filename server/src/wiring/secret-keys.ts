import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import type { Config } from '../config/load.ts';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import { distrustOf } from '../model/file-rights.ts';
import { parseSecretKey, SECRET_KEY_RULE, type SecretKeys } from '../model/secret-keys.ts';
import { StorageError } from '../ports/event-log.ts';

type WrittenKey = NonNullable<Config['secrets']['key']>;

/**
 * The keys of a configuration, those in files read. Throws a `StorageError` whose reason names the file and
 * says what to do.
 */
export function readSecretKeys({ key, previousKeys }: Config['secrets']): SecretKeys {
  const previous = previousKeys.map((one, nth) => readKey(one, `secrets.previousKeys[${nth}]`));
  const places = Object.fromEntries(
    Array.from(DESTINATION_TYPES, ([name, { settings }]) => [name, settings.hidden]),
  );
  return key === undefined
    ? { previous, places }
    : { current: readKey(key, 'secrets.key'), previous, places };
}

function readKey(written: WrittenKey, setting: string): Uint8Array {
  const text = typeof written === 'string' ? written : readKeyFile(written.file, setting);
  const key = parseSecretKey(text);
  if (key !== undefined) return key;
  const where = typeof written === 'string' ? '' : ` ${written.file} holds no key: what it holds`;
  throw new StorageError(`${setting}:${where} ${SECRET_KEY_RULE}`);
}

/** A link is followed: orchestrators put one in the place of the file. */
function readKeyFile(path: string, setting: string): string {
  let problem: string | undefined;
  try {
    const handle = openSync(path, 'r');
    try {
      problem = distrustOf(fstatSync(handle), process.getuid?.());
      if (problem === undefined) return readFileSync(handle, 'utf8').trim();
    } finally {
      closeSync(handle);
    }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const why =
      { ENOENT: 'does not exist', EACCES: 'may not be read by this user', EISDIR: 'is a folder' }[
        String(code)
      ] ?? `cannot be read (${error instanceof Error ? error.message : String(error)})`;
    throw new StorageError(`${setting}: ${path} ${why}`, { cause: error });
  }
  throw new StorageError(
    `${setting}: ${path} ${problem}: give it to this user or root, and take the right to write from others (chmod o-w)`,
  );
}
