import { randomBytes } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';

/** Called once per start: numbers it, and makes the secret of the key hash at the very first one. */
export function beginEpoch(database: DatabaseSync): { epoch: number; keySecret: Uint8Array } {
  database.exec('begin immediate');
  database
    .prepare(`insert into installation(name, value) values ('key_secret', ?) on conflict do nothing`)
    .run(randomBytes(8));
  database.exec(
    `insert into installation(name, value) values ('epoch', 1) on conflict do update set value = value + 1`,
  );
  database.exec('commit');
  const read = database.prepare('select value from installation where name = ?');
  const { value: epoch } = read.get('epoch') as { value: number };
  const { value: keySecret } = read.get('key_secret') as { value: Uint8Array };
  return { epoch, keySecret };
}
