import { useState } from 'react';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Select } from '../../ui/controls.tsx';
import { Section } from '../../ui/page.tsx';
import { VERIFY_SNIPPETS } from './verify-snippets.ts';

/** How a receiver checks who sent a request. */
export function VerifySnippets() {
  const [language, setLanguage] = useState('Node');
  const snippet = VERIFY_SNIPPETS.find((one) => one.language === language);
  return (
    <aside className="stack-s">
      <Section title="Verify a request">
        <p className="soft">
          <span className="mono">X-Signature</span> is the HMAC-SHA1 of the exact bytes of the body with the
          shared secret, in hex. Verify before you parse.
        </p>
      </Section>
      <CodeBlock
        code={snippet?.code ?? ''}
        label={`Verify in ${language}`}
        title={
          <Select
            aria-label="Language"
            value={language}
            options={VERIFY_SNIPPETS.map((one) => ({ value: one.language, label: one.language }))}
            onChange={setLanguage}
          />
        }
      />
    </aside>
  );
}
