import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { batch, event } from '../conformance/batches.ts';
import { send } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import {
  adminTokenOf,
  failuresOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  runProgram,
  startProgram,
  startServer,
} from '../support/program.ts';
import { openStore } from '../support/shared-writer.ts';

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

describe('ids that a call may not have any more, in the data folder of an earlier version', () => {
  const stored = ['mia-\ud83d', 'x'.repeat(1025), ' '];

  it('are found and erased, each alone, and taken by no new call', async () => {
    const place = makePlace('sources: [{ name: website, writeKeys: [wk] }]');
    let program: Program | undefined;
    try {
      program = await startServer(place);
      await program.kill();
      const store = await openStore({ folder: place.data });
      const events = stored.map((userId, nth) => event(`old-${nth}`, 1, { userId }));
      await store.log.append(batch(events, { receivedAt: Date.now() }));
      await store.stop();
      program = await startServer(place);
      const { url } = program;
      const api = new ControlApi(() => ({ url, token: adminTokenOf(place) }));
      // One that nobody has is refused with the reason, but for the blank, which a call may have.
      const found = async (userId: string) => {
        const query = `userIdJson=${encodeURIComponent(JSON.stringify(userId))}`;
        const { status, answer } = await api.ask<{ data: { event: { messageId: string } }[] }>(
          'GET',
          `events?${query}`,
        );
        return status === 422 ? [] : answer.data.map(({ event: { messageId } }) => messageId);
      };
      for (const [nth, id] of stored.entries()) {
        expect(await found(id)).toEqual([`old-${nth}`]);
        if (id !== ' ') expect((await send(url, '/v1/track', { userId: id, event: 'E' })).status).toBe(400);
        const wish = { type: 'DELETE_ONLY', subjectIds: [id] };
        const { status, answer } = await api.ask<{ id: string }>('POST', 'regulations', wish);
        expect([status, answer]).toEqual([201, expect.objectContaining({ unknown: 0 })]);
        await api.until<{ overallStatus: string }>(
          `regulations/${answer.id}`,
          ({ overallStatus }) => overallStatus === 'FINISHED',
        );
        expect(await Promise.all(stored.map(found))).toEqual(
          stored.map((_, other) => (other > nth ? [`old-${other}`] : [])),
        );
        // Now nobody has it.
        expect((await api.ask('POST', 'regulations', wish)).status).toBe(id === ' ' ? 201 : 422);
      }
    } finally {
      await program?.kill();
      place.remove();
    }
  });
});
