import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { asCurl, shellQuoted } from './curl.ts';

describe('a command to copy', () => {
  it.each([`it's $(id) \`id\``, `'; rm -rf / #`, 'a\nb', '\\', ''])(
    'is one text for the shell: %j',
    (text) => {
      expect(execFileSync('sh', ['-c', `printf %s ${shellQuoted(text)}`], { encoding: 'utf8' })).toBe(text);
    },
  );

  it('sends the call of an event without what the server wrote into it', () => {
    const event = {
      version: 1,
      type: 'track',
      messageId: 'm1',
      userId: "o'neil",
      event: 'A',
      receivedAt: 'x',
    };
    expect(asCurl(event, 'wk', 'http://localhost')).toBe(
      `curl -u 'wk:' http://localhost/v1/track -d '{"userId":"o'\\''neil","event":"A"}'`,
    );
  });
});
