import { Button } from '../ui/controls.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { activeShortcuts } from '../ui/shortcuts.ts';
import './shortcut-help.css';

/** Lists the shortcuts of the open page. */
export function ShortcutHelp({ onClose }: { readonly onClose: () => void }) {
  const all = activeShortcuts();
  const groups = [
    { title: 'On this page', keys: all.filter(({ keys }) => !keys.startsWith('g ')) },
    { title: 'Go to', keys: all.filter(({ keys }) => keys.startsWith('g ')) },
  ];
  return (
    <Dialog title="Keys" onClose={onClose} foot={<Button onClick={onClose}>Close</Button>}>
      <div className="keys">
        {groups.map(({ title, keys }) => (
          <section key={title}>
            <h3 className="lbl">{title}</h3>
            <dl>
              {keys.map(({ keys: pressed, does }) => (
                <div key={pressed} className="keys-row">
                  <dt>{does}</dt>
                  <dd>
                    {pressed.split(' ').map((key) => (
                      <kbd key={key}>{key.replace('mod+', MODIFIER)}</kbd>
                    ))}
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}

const MODIFIER = navigator.platform.startsWith('Mac') ? '⌘ ' : 'Ctrl ';
