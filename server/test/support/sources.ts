import type { Source } from '../../src/model/settings.ts';

/** A source as most are, but for what a test says of it. */
export function sourceWith(parts: Partial<Source> = {}): Source {
  return {
    id: 1,
    name: 'website',
    writeKeys: ['wk'],
    enabled: true,
    mode: 'standard',
    whenDisabled: 'refuse',
    ...parts,
  };
}
