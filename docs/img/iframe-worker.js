// Pages that are opened from a folder may start no worker, and the search of the site runs in one. There its script runs in
// a hidden frame instead. The name IFrameWorker is what the search of mkdocs-material looks for.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      addEventListener("message", (event) => {
        if (event.source !== inside) return
        this.dispatchEvent(new MessageEvent("message", { data: event.data }))
        if (this.onmessage) this.onmessage(event)
      })
      inside.document.open()
      inside.document.write(`<body><script>
        postMessage = (data) => parent.postMessage(data, "*")
        importScripts = async (...urls) => {
          for (const url of urls) {
            const script = document.createElement("script")
            script.src = url
            document.body.append(script)
            await new Promise((loaded) => { script.onload = loaded })
          }
        }
      </script><script src="${url}"></script>`)
      inside.document.close()
      this.ready = new Promise((loaded) => { inside.onload = loaded })
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.IFrameWorker = window.Worker = IFrameWorker
}
