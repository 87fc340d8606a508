import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { ArrowRight, Search } from 'lucide-react';
import { type KeyboardEvent, useState } from 'react';
import { destinationsQuery, sourcesQuery } from '../api/queries.ts';
import { Dialog } from '../ui/dialog.tsx';
import { activeShortcuts } from '../ui/shortcuts.ts';
import { visibleLine } from '../ui/visible-text.ts';
import { type Choice, choices } from './choices.ts';

/** Search or jump: sections, records by name, and whatever an id may be the id of. */
export function Palette({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const navigate = useNavigate();
  const { data: destinations = [] } = useQuery(destinationsQuery);
  const { data: sources = [] } = useQuery(sourcesQuery);
  const found = choices(text, { destinations, sources });
  const chosen = Math.min(at, found.length - 1);

  const open = (choice: Choice | undefined): void => {
    if (choice === undefined) return;
    onClose();
    void navigate({ href: choice.href });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by !== undefined) setAt((chosen + by + found.length) % Math.max(found.length, 1));
    else if (event.key === 'Enter') open(found[chosen]);
    else return;
    event.preventDefault();
  };

  return (
    <Dialog title="Search or jump" onClose={onClose} className="pal">
      <div className="pal-q">
        <Search className="i" aria-hidden />
        <input
          autoFocus
          role="combobox"
          aria-label="Search or jump"
          aria-expanded="true"
          aria-controls="palette-options"
          aria-activedescendant={found.length > 0 ? `palette-${chosen}` : undefined}
          placeholder="A section, a name, a messageId, a userId"
          autoComplete="off"
          spellCheck={false}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <div className="opts" role="listbox" id="palette-options" aria-label="Found">
        {found.map((choice, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys.
          // biome-ignore lint/a11y/useFocusableInteractive: the field keeps the focus, as a combobox does.
          <div
            key={choice.href}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === chosen}
            className="opt"
            onClick={() => open(choice)}
            onPointerMove={() => setAt(index)}
          >
            <ArrowRight className="i" aria-hidden />
            <span className="clip">{visibleLine(choice.label, 80)}</span>
            <span className="r">{choice.kind}</span>
          </div>
        ))}
      </div>
    </Dialog>
  );
}

/** What can be pressed on the page that is open. */
export function ShortcutHelp({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="kv">
        {activeShortcuts().map(({ keys, does }) => (
          <div key={keys} className="kv-row">
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key.replace('mod+', '⌘/Ctrl ')}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
