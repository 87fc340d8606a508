import type { Source } from '../../src/model/settings.ts';

/** A typical source, with the fields that a test overrides. */
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
