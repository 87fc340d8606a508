import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  failuresOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  runProgram,
  startProgram,
} from '../support/program.ts';

/** Tests of the embedded engine only: with it, files can be missing or in use in the data folder. */
describe('millrace start on a data folder', () => {
  let place: Place;
  /**
   * The one that has made the folder; tests that change the folder stop it, and leave what the next one makes
   * worse.
   */
  let first: Program;
  const args = (...more: string[]) => [
    ...['start', '--config', place.config, '--data', place.data, '--host', '127.0.0.1'],
    ...more,
  ];
  const start = (...more: string[]) => runProgram({ args: args(...more) });

  beforeAll(async () => {
    place = makePlace(oneDestination(['http://127.0.0.1:9/in']));
    first = await startProgram({ args: args('--port', '0') });
  });
  afterAll(async () => {
    await first.kill();
    place.remove();
  });

  it('says in one line what to do when the data folder cannot be made', async () => {
    const data = join(place.folder, 'file');
    writeFileSync(data, 'a file, not a folder');
    const { code, stderr } = await start('--port', '0', '--data', data);
    expect(code).toBe(1);
    expect(failuresOf(stderr)).toEqual([expect.stringMatching(/data folder .*file.*--data/)]);
  });

  it.runIf(process.platform === 'linux').each(['start', 'dev'])(
    'ends at once when the system makes no folder there (%s)',
    async (verb) => {
      const { code, stderr } = await runProgram({
        args: [verb, '--data', '/proc/millrace/data', '--port', '0'],
      });
      expect(code).toBe(1);
      expect(stderr).toMatch(/cannot make the data folder .*--data/);
    },
  );

  it('says in one line what to do when the data folder belongs to another running instance', async () => {
    const { code, stderr } = await start('--port', '0');
    expect(code).toBe(1);
    expect(failuresOf(stderr)).toEqual([
      expect.stringMatching(
        new RegExp(`in use by another running Millrace \\(process ${first.pid}\\).*--data`),
      ),
    ]);
    expect(await first.stop()).toBe(0);
  });

  it('says in one line what to do when the folder holds a newer format', async () => {
    await first.stop();
    const database = new DatabaseSync(join(place.data, 'millrace.db'));
    database.exec('pragma user_version = 999');
    database.close();
    const { code, stderr } = await start('--port', '0');
    expect(code).toBe(1);
    expect(failuresOf(stderr)).toEqual([expect.stringMatching(/newer Millrace \(format 999.*newer version/)]);
  });

  it('says in one line what to do when its store has vanished, and leaves the folder as it is', async () => {
    await first.stop();
    rmSync(join(place.data, 'millrace.db'));
    const { code, stderr } = await start('--port', '0');
    expect(code).toBe(1);
    expect(failuresOf(stderr)).toEqual([expect.stringMatching(/millrace\.db is missing.*restore a backup/)]);
    expect(existsSync(join(place.data, 'millrace.db'))).toBe(false);
  });
});
