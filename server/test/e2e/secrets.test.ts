import { createHmac, randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import { send, track } from '../support/calls.ts';
import { ControlApi } from '../support/control-api.ts';
import {
  adminTokenOf,
  failuresOf,
  logOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  runProgram,
  startArguments,
  startServer,
} from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';
import { databaseOf } from '../support/test-database.ts';

const SECRET = 'shared-secret-of-the-crm';
const newKey = () => randomBytes(32).toString('base64');

/** The steps of one installation, each on what the one before has left. */
describe('a server with a key for its secrets', () => {
  let receiver: TestReceiver;
  let place: Place;
  let server: Program | undefined;
  let etag: string | null;
  const [first, second] = [newKey(), newKey()];
  const control = new ControlApi(() => ({ url: server!.url, token: adminTokenOf(place) }));

  /** From the second start on the file names no record: what is signed with comes from the store. */
  const configure = (secrets: string) =>
    writeFileSync(place.config, `egress: { allow: [127.0.0.0/8, ::1/128] }\n${secrets}\n`);
  const etagOf = async () => {
    const authorization = `Bearer ${adminTokenOf(place)}`;
    return (
      await fetch(`${server!.url}/api/v1/destinations/crm`, { headers: { authorization } })
    ).headers.get('etag');
  };
  /** Whether the request for a new event is signed with the secret. */
  const expectSigned = async (messageId: string) => {
    const { status } = await send(server!.url, '/v1/track', track(messageId));
    expect(status).toBe(200);
    const isOf = ({ headers }: { headers: object }) => Object(headers)['webhook-id'] === messageId;
    await receiver.until(() => receiver.arrivals.some(isOf));
    const { headers, body } = receiver.arrivals.find(isOf)!;
    expect(headers['x-signature']).toBe(createHmac('sha1', SECRET).update(body).digest('hex'));
  };
  const examine = () =>
    runProgram({
      args: ['doctor', '--json', '--config', place.config, '--data', place.data],
      env: databaseOf(startArguments(place)),
    });
  const failure = async () => {
    const { code, stderr } = await runProgram({ args: startArguments(place) });
    expect(code).toBe(1);
    return failuresOf(stderr);
  };

  beforeAll(async () => {
    receiver = await startReceiver();
    place = makePlace(oneDestination([`${receiver.url}/in`], SECRET));
    server = await startServer(place);
    await expectSigned('before');
    etag = await etagOf();
    await server.stop();
  });
  afterAll(async () => {
    await server?.kill();
    await receiver?.stop();
    place?.remove();
  });

  it('encrypts what is stored, signs as before, and no record has changed', async () => {
    writeFileSync(join(place.folder, 'key'), `${first}\n`, { mode: 0o600 });
    configure(`secrets: { key: { file: ${join(place.folder, 'key')} } }`);
    server = await startServer(place);
    const [line] = logOf(server.out.stderr).filter(({ event }) => event === 'secrets.rewritten');
    expect(line).toMatchObject({ level: 'info', key: expect.stringMatching(/^[0-9a-f]{16}$/), records: 1 });
    await expectSigned('encrypted');
    expect(await etagOf()).toBe(etag);
    await server.stop();
    if (!existsSync(join(place.data, 'millrace.db'))) return;
    const files = readdirSync(place.data).map((name) => readFileSync(join(place.data, name), 'latin1'));
    expect(files.join('').includes(SECRET)).toBe(false);
  });

  it('does not start without the key or with another, says which it needs, and still starts with the right one', async () => {
    configure('');
    expect(await failure()).toEqual([
      expect.stringMatching(
        /secrets are encrypted with the key [0-9a-f]{16}, and secrets\.key is not set: set/,
      ),
    ]);
    configure(`secrets: { key: ${second} }`);
    expect(await failure()).toEqual([
      expect.stringMatching(/and secrets\.key is [0-9a-f]{16}: set secrets\.key/),
    ]);
    const doctor = await examine();
    expect(doctor.code).toBe(1);
    expect(JSON.parse(doctor.stdout).findings).toContainEqual(
      expect.objectContaining({ check: 'secrets at rest', verdict: 'fail' }),
    );
  });

  it('takes a new key, and shows no secret and no key to anybody', async () => {
    configure(`secrets: { key: ${second}, previousKeys: [${first}] }`);
    server = await startServer(place);
    await expectSigned('rotated');
    expect(await etagOf()).toBe(etag);
    const exported = await runVerb(['export', '--url', server.url, '--token', adminTokenOf(place)]);
    const seen =
      JSON.stringify(await control.read('config')) + exported.out + exported.err + server.out.stderr;
    for (const secret of [SECRET, first, second, 'sealed']) expect(seen.includes(secret)).toBe(false);
    await server.stop();
    configure(`secrets: { key: ${second} }`);
    server = await startServer(place);
    expect(server.out.stderr).not.toContain('secrets.rewritten');
    await expectSigned('rotated-alone');
    const doctor = await examine();
    expect(JSON.parse(doctor.stdout).findings).toContainEqual(
      expect.objectContaining({ check: 'secrets at rest', verdict: 'ok' }),
    );
    await server.stop();
  });

  it('stores them as they are again where the key is among the previous ones alone, and doctor says so', async () => {
    configure(`secrets: { previousKeys: [${second}] }`);
    server = await startServer(place);
    await server.stop();
    configure('');
    server = await startServer(place);
    await expectSigned('plain');
    expect(await etagOf()).toBe(etag);
    const doctor = await examine();
    expect(JSON.parse(doctor.stdout).findings).toContainEqual(
      expect.objectContaining({ check: 'secrets at rest', verdict: 'warn' }),
    );
  });
});
