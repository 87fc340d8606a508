import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import { send, track } from '../support/calls.ts';
import {
  adminTokenOf,
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startServer,
} from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

const SECRET = 'S3CRET-0123456789';
const QUERY = `?token=${SECRET}&v=1`;
/** As chat services have them in the path. */
const REST = `/${SECRET}-of-a-path${QUERY}`;

/** Many receivers know a sender by a token in the URL. */
describe('a credential in the URL of an endpoint', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    receiver = await startReceiver({
      // As endpoints do that are being developed: the answer is the request.
      answer: (response, { path, headers }) => {
        const got = `${path} ${JSON.stringify(headers)}`;
        response
          .writeHead(path.startsWith('/gone') ? 410 : 503)
          .end(`no: ${got} ${Buffer.from(got).toString('base64')}`);
      },
    });
    place = makePlace(oneDestination([`${receiver.url}/in${REST}`, `${receiver.url}/gone${REST}`]));
    program = await startServer(place, { env: { MILLRACE_LOG: 'debug' } });
    await send(program.url, '/v1/track', track('m1'));
    await receiver.count(2);
    await program.saw(/destination\.failing/);
  });

  afterAll(async () => {
    await program.kill();
    await receiver.stop();
    place.remove();
  });

  const run = (args: readonly string[], env = {}) =>
    runVerb([...args, '--url', program.url, '--data', place.data], env);
  const at = (path: string) => new URL(path, program.url);
  const authorized = () => ({ authorization: `Bearer ${adminTokenOf(place)}` });

  it('is sent, and stands in no answer, no output and no log', async () => {
    expect(receiver.arrivals.map(({ path }) => path).sort()).toEqual([`/gone${REST}`, `/in${REST}`]);
    const signature = String(receiver.arrivals[0]!.headers['x-signature']);
    // This puts the record into the audit trail too.
    const body = JSON.stringify({ settings: { rateLimit: 5 } });
    await fetch(at('/api/v1/destinations/crm'), { method: 'PATCH', headers: authorized(), body });
    const paths = [
      'destinations',
      'destinations/crm',
      'destinations/crm/status',
      'status',
      'config',
      'audit',
    ];
    const pages = [...paths, 'deliveries', 'deliveries?state=dead', 'events', 'events/m1', 'ledger'].map(
      (path) => `/api/v1/${path}`,
    );
    for (const page of [...pages, '/metrics']) {
      const answer = await fetch(at(page), { headers: authorized() });
      expect([page, answer.status]).toEqual([page, 200]);
      const text = await answer.text();
      for (const secret of [SECRET, signature])
        expect([page, text]).toEqual([page, expect.not.stringContaining(secret)]);
    }
    const { data } = (await (await fetch(at('/api/v1/deliveries'), { headers: authorized() })).json()) as {
      data: { attempts: { answer?: string }[] }[];
    };
    for (const { answer } of data[0]!.attempts)
      expect(answer).toMatch(/^no: \/(in|gone)\/…\?token=…&v=1 .*"x-signature":"…"/);
    expect(data[0]!.attempts.length).toBeGreaterThan(1);
    const trial = await fetch(at('/api/v1/destinations/crm/test'), { method: 'POST', headers: authorized() });
    expect(await trial.text()).toMatch(/^(?!.*S3CRET).*in\/…\?token=…&v=….*$/);
    const verbs = [['status'], ['trace', 'm1'], ['deliveries'], ['events'], ['export']];
    for (const verb of verbs) {
      for (const args of verb[0] === 'export' ? [verb] : [verb, [...verb, '--json']]) {
        const { out, err } = await run(args);
        expect([args, out + err]).toEqual([args, expect.not.stringContaining(SECRET)]);
      }
    }
    const { stdout, stderr } = program.out;
    expect(stdout + stderr).toMatch(/\/(in|gone)\/…\?token=…&v=…/);
    expect(stdout + stderr).not.toContain(SECRET);
  });

  it('is read from a variable by the file that export writes, which changes nothing', async () => {
    const { out } = await run(['export']);
    expect(out).toContain(
      `url: "${receiver.url}/in/\${CRM_PATH_1_2}?token=\${CRM_QUERY_1_TOKEN}&v=\${CRM_QUERY_1_V}"`,
    );
    const file = join(place.folder, 'exported.yaml');
    writeFileSync(file, out);
    const env = {
      ...{ CRM_SECRET: 's3cret-of-the-tests', CRM_QUERY_1_TOKEN: SECRET, CRM_QUERY_1_V: '1' },
      ...{ CRM_QUERY_2_TOKEN: SECRET, CRM_QUERY_2_V: '1' },
      ...{ CRM_PATH_1_2: `${SECRET}-of-a-path`, CRM_PATH_2_2: `${SECRET}-of-a-path` },
    };
    expect(await run(['plan', '-f', file], env)).toMatchObject({
      ...{ code: 0, out: expect.stringContaining('Nothing to change') },
    });
    const changed = await run(['plan', '-f', file], { ...env, CRM_QUERY_1_TOKEN: 'another-secret' });
    expect(changed).toMatchObject({ code: 0, out: expect.stringContaining('~ destination crm') });
    expect(changed.out + changed.err).not.toMatch(/another-secret|S3CRET/);
  });

  it('stays when what was read is sent back, and goes to no other host', async () => {
    const url = at('/api/v1/destinations/crm');
    const headers = authorized();
    const shown = (await (await fetch(url, { headers })).json()) as {
      settings: { endpoints: { url: string }[] };
    };
    const back = await fetch(url, { method: 'PATCH', headers, body: JSON.stringify(shown) });
    expect(back.status).toBe(200);
    const before = receiver.arrivals.length;
    await fetch(at('/api/v1/destinations/crm/test'), { method: 'POST', headers });
    expect(receiver.arrivals.slice(before).map(({ path }) => path)).toContain(`/in${REST}`);
    const elsewhere = shown.settings.endpoints[0]!.url.replace(/:\d+/, ':1');
    const stolen = await fetch(url, {
      ...{ method: 'PATCH', headers },
      body: JSON.stringify({ settings: { endpoints: [{ url: elsewhere }] } }),
    });
    expect(stolen.status).toBe(422);
    expect(await stolen.text()).toContain('with its whole path and query');
  });
});
